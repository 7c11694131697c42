"""Weights of a GGUF file in its own blocks, stacked as the model wants them."""

from __future__ import annotations

import torch

from minisgl_lite.kernel.blocks import BLOCK_TYPES, Blocks
from minisgl_lite.models.config import ModelConfig
from minisgl_lite.models.weight import checkpoint_layout

from .tensors import GGUFTensors


def block_weights(source: GGUFTensors, config: ModelConfig) -> dict[str, Blocks]:
    """Each matrix of the model whose parts all have one block type that the kernel reads."""
    found = {}
    for name, parts in checkpoint_layout(config):
        if len(parts[0].shape) != 2:
            continue
        read = [source.read_blocks(part.name) for part in parts]
        types = {kind for kind, _ in read}
        if len(types) == 1 and types <= set(BLOCK_TYPES):
            raw = torch.cat([rows for _, rows in read])  # copies: the file may be on a slow disk
            found[name] = Blocks(read[0][0], raw, parts[0].shape[1])
    return found
