"""Dequantisation of each type against the ``gguf`` package, value for value."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from minisgl_lite.models.gguf.dequant import dequantize
from minisgl_lite.models.gguf.types import TENSOR_TYPES

KINDS = [block.name for block in TENSOR_TYPES.values()]


def block_of(kind: str) -> int:
    return int(gguf.GGMLQuantizationType[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_values_equal_the_gguf_package(kind: str) -> None:
    values = np.random.default_rng(1).normal(0, 3, size=(5, 96)).astype(np.float32)
    packed = gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind])
    expected = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType[kind])
    raw = torch.from_numpy(packed.view(np.uint8).copy()).flatten()
    ours = dequantize(raw, TENSOR_TYPES[block_of(kind)])
    assert ours.dtype == torch.float32
    assert torch.equal(ours.view(5, 96), torch.from_numpy(expected.astype(np.float32)))


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1"])
def test_every_byte_pattern_means_the_same(kind: str) -> None:
    block = TENSOR_TYPES[block_of(kind)]
    raw = np.random.default_rng(2).integers(0, 256, size=(500, block.nbytes), dtype=np.uint8)
    raw[:, 1] &= 0x3B  # scales stay finite
    raw[:, 3] &= 0x3B
    expected = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])
    ours = dequantize(torch.from_numpy(raw.copy()).flatten(), block)
    assert torch.equal(ours, torch.from_numpy(expected).flatten())


@pytest.mark.parametrize("kind", KINDS)
def test_block_sizes_equal_the_gguf_package(kind: str) -> None:
    block = TENSOR_TYPES[block_of(kind)]
    sizes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    assert (block.elements, block.nbytes) == sizes


def test_plain_tensors_are_copied() -> None:
    raw = torch.arange(16, dtype=torch.uint8)
    dequantize(raw, TENSOR_TYPES[block_of("F32")]).zero_()
    assert raw[5] == 5
