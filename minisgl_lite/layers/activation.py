"""Gated activations of the MLP (mini-sglang: layers/activation.py)."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from minisgl_lite.kernel.rows import silu_and_mul


def gelu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """(T, 2·I), gate before up -> gelu(gate) · up, (T, I); the exact gelu, not its tanh form."""
    gate, up = x.chunk(2, dim=-1)
    return F.gelu(gate).mul_(up)


__all__ = ["gelu_and_mul", "silu_and_mul"]
