"""What a loaded model multiplies with, and that it computes the same."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from minisgl_lite.kernel.blocks import Blocks, blocks_kernel_is_there, blocks_linear_torch
from minisgl_lite.layers import BaseOP, LinearReplicated, fast_linear
from minisgl_lite.layers.fast_linear import MOST_ROWS, make_fast, prepacked

HAS_BF16 = torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


class Model(BaseOP):
    def __init__(self, dtype: torch.dtype, has_bias: bool = False) -> None:
        self.proj = LinearReplicated(64, 48, has_bias)
        self.proj.weight = torch.randn(48, 64).to(dtype)
        if has_bias:
            self.proj.bias = torch.randn(48).to(dtype)


def blocks_of(model: Model) -> dict[str, Blocks]:
    """Q8_0 blocks, and the model's weight set to what they stand for."""
    raw = torch.randint(0, 256, (48, 2, 34), dtype=torch.uint8)
    raw[..., :2] = torch.randn(48, 2, 1).half().view(torch.uint8)
    blocks = Blocks("Q8_0", raw.flatten(1), 64)
    model.proj.weight = blocks_linear_torch(torch.eye(64), blocks).T.to(model.proj.weight.dtype)
    return {"proj.weight": blocks}


def test_the_private_operations_of_torch_are_still_there() -> None:
    """When they are gone, quick is as slow as plain bf16, and this line says so."""
    if not HAS_BF16:
        pytest.skip("no bf16 in oneDNN on this processor")
    assert prepacked(torch.randn(8, 32).bfloat16()) is not None


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_with_or_without_blocks_the_result_is_that_of_the_plain_product(
    dtype: torch.dtype, rows: int, has_bias: bool
) -> None:
    for with_blocks in (False, True):
        model = Model(torch.float32, has_bias)
        blocks = blocks_of(model)
        x, weight = torch.randn(rows, 64), model.proj.weight.clone()
        bias = model.proj.bias
        wanted = F.linear(x.float(), weight.float(), None if bias is None else bias.float())
        make_fast(model, blocks if with_blocks else {}, dtype)
        got = model.proj.forward(x)
        scale = wanted.abs().max()
        assert float((got.float() - wanted).abs().max() / scale) < (
            1e-5 if dtype == torch.float32 else 2e-2
        )


def test_a_prepacked_weight_is_not_kept_twice() -> None:
    model = Model(torch.float32, False)
    make_fast(model, {}, torch.bfloat16)
    assert model.proj.weight.is_meta and model.proj.weight.shape == (48, 64)


@pytest.mark.skipif(not blocks_kernel_is_there(), reason="no C compiler")
@pytest.mark.parametrize("dtype", MOST_ROWS)
def test_the_number_of_rows_decides(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    real = fast_linear.blocks_linear
    monkeypatch.setattr(
        fast_linear, "blocks_linear", lambda x, b: (used.append(len(x)), real(x, b))[1]
    )
    model = Model(torch.float32)
    make_fast(model, blocks_of(model), dtype)
    with torch.inference_mode():
        for rows in (1, MOST_ROWS[dtype], MOST_ROWS[dtype] + 1):
            model.proj.forward(torch.randn(rows, 64))
    assert used == [1, MOST_ROWS[dtype]]


def test_without_compiler_and_without_onednn_the_product_is_plain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fast_linear, "blocks_kernel_is_there", lambda: False)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    model = Model(torch.float32)
    blocks, x = blocks_of(model), torch.randn(2, 64)
    narrow = model.proj.weight.bfloat16()
    make_fast(model, blocks, torch.bfloat16)
    assert torch.equal(model.proj.forward(x), F.linear(x.bfloat16(), narrow))
