"""Linear layers over weights that stay as a GGUF file has them, for steps of few rows.

The weights of SmolLM2 take 538 MB in fp32 and 96 MB in the file's blocks of 4 and 8 bits. A step
for few rows costs the time to read them, and little else.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch

from .compiled import launch, load_library

BLOCK_TYPES = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 8}
"""The types that ``blocks.c`` reads, as it and the file number them."""


class Blocks(NamedTuple):
    """A weight (out, in), in/32 blocks a row. ``raw``: (out, bytes of a row) uint8, contiguous."""

    type: str
    raw: torch.Tensor
    in_features: int


@cache
def _compiled() -> Any:
    library = load_library("blocks.c")
    return None if library is None else library.blocks_linear


def blocks_kernel_is_there() -> bool:
    """Whether ``blocks_linear`` is the compiled one; asking compiles it, once."""
    return _compiled() is not None


def blocks_linear(x: torch.Tensor, blocks: Blocks) -> torch.Tensor:
    """``x`` times the transpose of the weight, computed in fp32.

    Each row's result is the same, to the bit, whatever the other rows and their number.

    Args:
        x: (T, in) on the CPU, fp32 or bf16.
    Returns:
        (T, out) in the dtype of ``x``.
    Raises:
        ValueError: shapes, strides or places that don't fit.
    """
    _check(x, blocks)
    kernel = _compiled()
    if kernel is None:
        return blocks_linear_torch(x, blocks)
    rows, out = x.shape[0], blocks.raw.shape[0]
    given = x.float().contiguous()
    y = torch.empty((rows, out), dtype=torch.float32)
    launch(
        kernel,
        BLOCK_TYPES[blocks.type],
        blocks.raw,
        given,
        y,
        rows,
        blocks.in_features,
        out,
        torch.get_num_threads(),
    )
    return y.to(x.dtype)


def blocks_linear_torch(x: torch.Tensor, blocks: Blocks) -> torch.Tensor:
    """The twin of ``blocks.c``: the same through the dequantised weight."""
    return torch.nn.functional.linear(x.float(), dequantized(blocks)).to(x.dtype)


def dequantized(blocks: Blocks) -> torch.Tensor:
    """The weight that the blocks stand for: (out, in) fp32."""
    from minisgl_lite.models.gguf.dequant import dequantize
    from minisgl_lite.models.gguf.types import TENSOR_TYPES

    kind = TENSOR_TYPES[BLOCK_TYPES[blocks.type]]
    return dequantize(blocks.raw.flatten(), kind).view(-1, blocks.in_features)


def _check(x: torch.Tensor, blocks: Blocks) -> None:
    if x.dim() != 2 or x.shape[1] != blocks.in_features or not x.is_cpu:
        raise ValueError(
            f"x is (T, {blocks.in_features}) on the CPU, not {tuple(x.shape)} on {x.device}."
        )


__all__ = [
    "BLOCK_TYPES",
    "Blocks",
    "blocks_kernel_is_there",
    "blocks_linear",
    "blocks_linear_torch",
    "dequantized",
]
