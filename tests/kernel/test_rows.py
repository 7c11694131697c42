"""What runs between a layer's products: compiled code beside its torch twins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from minisgl_lite.kernel import rows
from minisgl_lite.kernel.rows import (
    cast_heads,
    compiled_rows,
    rmsnorm,
    rmsnorm_torch,
    rotate,
    rotate_torch,
    silu_and_mul,
    silu_and_mul_torch,
)

needs_compiler = pytest.mark.skipif(compiled_rows() is None, reason="no C compiler")
close = torch.testing.assert_close
DTYPES = (torch.float32, torch.bfloat16, torch.float64)
MANY = 700
"""Enough rows for several threads to share them."""


def test_what_stands_in_the_package_compiles() -> None:
    """Without this, a slip in ``rows.c`` would only make everything slow."""
    import shutil

    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    assert compiled_rows() is not None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 576), (5, 48), (3, 4, 64), (MANY, 100), (2, 7)])
def test_rmsnorm_equals_its_twin(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, weight = torch.randn(shape).to(dtype), torch.randn(shape[-1]).to(dtype)
    before = x.clone()
    close(rmsnorm(x, weight, 1e-5), rmsnorm_torch(x, weight, 1e-5), rtol=1e-5, atol=1e-5)
    assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rmsnorm_adds_into_the_residual(dtype: torch.dtype) -> None:
    x, residual, weight = (torch.randn(9, 64).to(dtype) for _ in range(3))
    total = residual + x
    y = rmsnorm(x, weight[0], 1e-5, residual)
    assert torch.equal(residual, total)
    close(y, rmsnorm_torch(total, weight[0], 1e-5), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", [1, 6, MANY])
def test_silu_and_mul_equals_its_twin(tokens: int, dtype: torch.dtype) -> None:
    x = (20 * torch.randn(tokens, 96)).to(dtype)
    # NOTE: the compiled exp is right to a few units in the last place, of numbers up to 80.
    close(silu_and_mul(x), silu_and_mul_torch(x), rtol=1e-4, atol=1e-4)


def test_a_gate_far_below_zero_is_zero_and_no_nan() -> None:
    x = torch.tensor([[-200.0, -1e30, 200.0, 1.0, 1.0, 1.0]])
    close(silu_and_mul(x), torch.tensor([[0.0, 0.0, 200.0]]), rtol=0, atol=1e-30)
    gates = torch.linspace(-130, 130, 4096)  # as wide as the loop that takes 16 at a time
    x = torch.cat([gates, torch.ones(4096)])[None]
    close(silu_and_mul(x), silu_and_mul_torch(x), rtol=1e-4, atol=1e-30)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ids", [torch.int32, torch.int64])
@pytest.mark.parametrize("tokens", [1, 5, MANY])
def test_rotate_equals_its_twin_on_a_part_of_wider_rows(
    tokens: int, ids: torch.dtype, dtype: torch.dtype
) -> None:
    table, qkv = torch.randn(50, 2, 64), torch.randn(tokens, 7, 64).to(dtype)
    positions = torch.randint(0, 50, (tokens,), dtype=ids)
    for part in (qkv[:, :4], qkv[:, 4:6]):
        before = qkv.clone()
        close(rotate(part, table, positions), rotate_torch(part, table, positions))
        assert torch.equal(qkv, before)


@pytest.mark.parametrize("position", [-1, 50])
@needs_compiler
def test_a_position_outside_the_table_is_refused(position: int) -> None:
    positions = torch.tensor([3, position], dtype=torch.int32)
    with pytest.raises(IndexError, match=rf"position {position} is outside the table's \[0, 50\)"):
        rotate(torch.randn(2, 3, 64), torch.randn(50, 2, 64), positions)


def test_a_row_gets_the_same_bits_whatever_the_others() -> None:
    x, weight, table = torch.randn(MANY, 128), torch.randn(128), torch.randn(MANY, 2, 64)
    positions = torch.arange(MANY)
    whole = rmsnorm(x, weight, 1e-5), silu_and_mul(x), rotate(x.view(-1, 2, 64), table, positions)
    for row in (0, 1, 333, MANY - 1):
        part = slice(row, row + 1)
        alone = (
            rmsnorm(x[part], weight, 1e-5),
            silu_and_mul(x[part]),
            rotate(x[part].view(-1, 2, 64), table, positions[part]),
        )
        assert all(torch.equal(one, many[part]) for one, many in zip(alone, whole, strict=True))


def test_without_a_compiler_the_twins_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "compiled_rows", lambda: None)
    x, weight, positions = torch.randn(3, 64), torch.randn(64), torch.tensor([0, 4, 1])
    table = torch.randn(5, 2, 32)
    assert torch.equal(rmsnorm(x, weight, 1e-5), rmsnorm_torch(x, weight, 1e-5))
    assert torch.equal(silu_and_mul(x), silu_and_mul_torch(x))
    heads = x.view(3, 2, 32)
    assert torch.equal(rotate(heads, table, positions), rotate_torch(heads, table, positions))


@pytest.mark.parametrize(
    "call",
    [
        lambda: rmsnorm(torch.ones(4, 64), torch.ones(8), 1e-5),
        lambda: rmsnorm(torch.ones(4, 64), torch.ones(64), 1e-5, torch.ones(2, 64)),
        lambda: silu_and_mul(torch.ones(4, 7)),
        lambda: rotate(torch.ones(4, 2, 64), torch.ones(50, 2, 32), torch.arange(4)),
        lambda: rotate(torch.ones(4, 2, 64), torch.ones(50, 2, 64), torch.arange(3)),
    ],
)
def test_shapes_that_do_not_fit_are_left_to_torch_which_refuses_them(
    call: Callable[[], object],
) -> None:
    with pytest.raises(RuntimeError, match="size"):
        call()


@pytest.mark.parametrize("tokens", [1, 5, MANY])
def test_heads_are_cast_as_torch_casts_them(tokens: int) -> None:
    bits = torch.randint(-(2**31), 2**31, (tokens, 96), dtype=torch.int64).to(torch.int32)
    ties = torch.tensor([0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7F800000, 0x7FC00001, 1])
    bits[:, :6] = ties.to(torch.int32)
    x = bits.view(torch.float32).view(tokens, 6, 16)[:, 0:4]  # rows with others between them
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        close(cast_heads(x, dtype), x.to(dtype), rtol=0, atol=0, equal_nan=True)
