"""RMSNorm against its formula in double precision, and against transformers bit by bit."""

from __future__ import annotations

import pytest
import torch

from minisgl_lite.kernel import rows
from minisgl_lite.layers import RMSNorm, RMSNormFused

EPS = 1e-5


def make(cls: type[RMSNorm], size: int, dtype: torch.dtype = torch.float32) -> RMSNorm:
    norm = cls(size, EPS)
    norm.load_state_dict({"weight": torch.linspace(0.5, 2.0, size).to(dtype)})
    return norm


def test_norm_equals_its_formula_in_double_precision() -> None:
    norm, x = make(RMSNorm, 48), torch.randn(7, 48, generator=torch.Generator().manual_seed(1))
    wide = x.double()
    expected = wide / (wide.pow(2).mean(-1, keepdim=True) + EPS).sqrt() * norm.weight.double()
    torch.testing.assert_close(norm.forward(x).double(), expected, rtol=1e-6, atol=1e-6)


def test_norm_leaves_its_input_alone() -> None:
    x = torch.randn(3, 8)
    before = x.clone()
    make(RMSNorm, 8).forward(x)
    assert torch.equal(x, before)


def test_fused_norm_adds_into_the_residual() -> None:
    norm, x, residual = make(RMSNormFused, 8), torch.randn(3, 8), torch.randn(3, 8)
    total = residual + x
    out, returned = norm.forward(x, residual)
    assert returned is residual
    assert torch.equal(residual, total)
    assert torch.equal(out, make(RMSNorm, 8).forward(total))


def test_fused_norm_without_residual_takes_the_input_as_residual() -> None:
    norm, x = make(RMSNormFused, 8), torch.randn(3, 8)
    before = x.clone()
    out, residual = norm.forward(x)
    assert residual is x
    assert torch.equal(x, before)
    assert torch.equal(out, make(RMSNorm, 8).forward(x))


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_norm_in_torch_equals_transformers_in_every_bit(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "compiled_rows", lambda: None)  # which adds in another order
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    norm = make(RMSNorm, 64, dtype)
    oracle = LlamaRMSNorm(64, EPS)
    oracle.weight = torch.nn.Parameter(norm.weight)
    x = torch.randn(9, 64, generator=torch.Generator().manual_seed(2)).to(dtype)
    assert torch.equal(norm.forward(x), oracle(x))
