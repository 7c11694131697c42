"""Linear layers over a file's own blocks: the values, row by row, and what is refused."""

from __future__ import annotations

import pytest
import torch

from minisgl_lite.kernel import blocks as module
from minisgl_lite.kernel.blocks import (
    BLOCK_TYPES,
    Blocks,
    blocks_kernel_is_there,
    blocks_linear,
    blocks_linear_torch,
)
from minisgl_lite.models.gguf.types import TENSOR_TYPES

needs_compiler = pytest.mark.skipif(not blocks_kernel_is_there(), reason="no C compiler")


def made_up(kind: str, out: int = 37, width: int = 96) -> Blocks:
    """Random blocks whose scales are of either sign and whose quants take every value."""
    size = TENSOR_TYPES[BLOCK_TYPES[kind]].nbytes
    generator = torch.Generator().manual_seed(out)
    raw = torch.randint(0, 256, (out, width // 32, size), dtype=torch.uint8, generator=generator)
    heads = torch.randn(out, width // 32, 2, generator=generator).half().view(torch.uint8)
    raw[..., : (4 if kind == "Q4_1" else 2)] = heads[..., : (4 if kind == "Q4_1" else 2)]
    return Blocks(kind, raw.flatten(1), width)


@needs_compiler
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 9, 31])
@pytest.mark.parametrize("kind", BLOCK_TYPES)
def test_equals_the_dequantised_weight(kind: str, rows: int) -> None:
    blocks, x = made_up(kind), torch.randn(rows, 96)
    wanted = blocks_linear_torch(x.double().float(), blocks)
    torch.testing.assert_close(blocks_linear(x, blocks), wanted, rtol=1e-5, atol=1e-3)


@needs_compiler
@pytest.mark.parametrize("kind", BLOCK_TYPES)
def test_a_row_gets_the_same_bits_whatever_the_others(kind: str) -> None:
    blocks, x = made_up(kind), torch.randn(19, 96)
    together = blocks_linear(x, blocks)
    for rows in (1, 2, 3, 7):
        for start in range(19 - rows):
            part = slice(start, start + rows)
            assert torch.equal(blocks_linear(x[part], blocks), together[part])


@needs_compiler
def test_any_strides_and_bf16() -> None:
    blocks, x = made_up("Q4_1"), torch.randn(96, 5)
    wanted = blocks_linear(x.T.contiguous(), blocks)
    assert torch.equal(blocks_linear(x.T, blocks), wanted)
    half = blocks_linear(x.T.bfloat16(), blocks)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), wanted, rtol=0.05, atol=2.0)


def test_without_a_compiler_the_twin_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_compiled", lambda: None)
    blocks, x = made_up("Q8_0"), torch.randn(3, 96)
    assert torch.equal(blocks_linear(x, blocks), blocks_linear_torch(x, blocks))


@pytest.mark.parametrize("shape", [(3, 95), (96,), (2, 3, 96)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"x is \(T, 96\) on the CPU"):
        blocks_linear(torch.randn(shape), made_up("Q4_0"))
