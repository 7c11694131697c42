"""Dequantisation of GGUF blocks in plain torch; values equal those of the ``gguf`` package.

A quantised block is 32 values with an fp16 scale ``d`` (and, in Q4_1, an fp16 minimum ``m``)::

    Q8_0   d:2 | 32 × int8                       x = d · q
    Q4_0   d:2 | 16 bytes, two nibbles each      x = d · (q − 8)
    Q4_1   d:2 | m:2 | 16 bytes, two nibbles     x = d · q + m

Of byte i the low nibble is value i, the high nibble value i + 16.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from .types import BlockType


def _half(blocks: torch.Tensor, start: int) -> torch.Tensor:
    """The fp16 number at byte ``start`` of each block, as fp32: (B, nbytes) -> (B, 1)."""
    return blocks[:, start : start + 2].contiguous().view(torch.float16).float()


def _nibbles(packed: torch.Tensor) -> torch.Tensor:
    """(B, 16) bytes -> fp32 (B, 32), values 0 .. 15."""
    values = torch.empty(len(packed), 32, dtype=torch.float32)
    values[:, :16] = packed & 15
    values[:, 16:] = packed >> 4
    return values


def _q8_0(blocks: torch.Tensor) -> torch.Tensor:
    return blocks[:, 2:].view(torch.int8).float().mul_(_half(blocks, 0))


def _q4_0(blocks: torch.Tensor) -> torch.Tensor:
    return _nibbles(blocks[:, 2:]).sub_(8).mul_(_half(blocks, 0))


def _q4_1(blocks: torch.Tensor) -> torch.Tensor:
    return _nibbles(blocks[:, 4:]).mul_(_half(blocks, 0)).add_(_half(blocks, 2))


_QUANTISED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Q8_0": _q8_0,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
}
_PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def dequantize(raw: torch.Tensor, block: BlockType) -> torch.Tensor:
    """Bytes (B · block.nbytes,) uint8 -> fp32 (B · block.elements,), memory of its own."""
    if block.name in _PLAIN:
        return raw.view(_PLAIN[block.name]).to(torch.float32, copy=True)
    return _QUANTISED[block.name](raw.view(-1, block.nbytes)).flatten()
