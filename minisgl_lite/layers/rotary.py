"""Rotary position embedding (mini-sglang: layers/rotary.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

import torch

from minisgl_lite.kernel.rows import rotate

from .base import StateLessOP
from .rope_scaling import ROPE_SCALING


def inverse_frequencies(
    rotary_dim: int, base: float, scaling: Mapping[str, Any] | None
) -> tuple[torch.Tensor, float]:
    """Each pair's angle per position, fp32 (rotary_dim / 2,) on the CPU; the cos/sin factor.

    Raises:
        ValueError: a kind of scaling that is not known.
    """
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float, device="cpu") / rotary_dim
    inv_freq = 1.0 / (base**exponents)
    kind = rope_type(scaling)
    if kind not in ROPE_SCALING:
        raise ValueError(f"unknown rope scaling {kind!r}; known: {', '.join(ROPE_SCALING)}.")
    return ROPE_SCALING[kind](inv_freq, base, scaling or {})


def rope_type(scaling: Mapping[str, Any] | None) -> str:
    """The kind of scaling; older checkpoints call the entry ``type``."""
    scaling = scaling or {}
    return str(scaling.get("rope_type") or scaling.get("type") or "default")


class RotaryEmbedding(StateLessOP):
    """Turns each pair (x_i, x_{i + D/2}) of a head by the angle position · inv_freq_i.

    The table of cosines and sines is made on first use, once per device, so that a model may be
    built on the meta device.
    """

    def __init__(
        self,
        head_dim: int,
        rotary_dim: int,
        max_position: int,
        base: float,
        scaling: Mapping[str, Any] | None = None,
    ) -> None:
        if rotary_dim != head_dim:
            raise ValueError(
                f"rotary_dim {rotary_dim} of head_dim {head_dim}: only whole heads are rotated."
            )
        self.head_dim = head_dim
        self.max_position = max_position
        self._inv_freq, self._factor = inverse_frequencies(rotary_dim, base, scaling)
        self._cos_sin_cache: dict[torch.device, torch.Tensor] = {}

    def _table(self, device: torch.device) -> torch.Tensor:
        """fp32 (max_position, 2, D): cos, then sin with the sign that each half takes."""
        if device not in self._cos_sin_cache:
            t = torch.arange(self.max_position, dtype=torch.float, device=device)
            angles = t[:, None] * self._inv_freq.to(device)  # (max_position, D/2)
            cos, sin = angles.cos() * self._factor, angles.sin() * self._factor
            table = torch.stack((torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)), 1)
            self._cos_sin_cache[device] = table
        return self._cos_sin_cache[device]

    def forward(
        self, positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Positions (T,), query (T, H_q, D), key (T, H_kv, D) -> both rotated, fresh tensors."""
        table = self._table(positions.device)
        return rotate(query, table, positions), rotate(key, table, positions)


# Layers of one model, and models alike, share a table for as long as one of them lives.
_LIVE: WeakValueDictionary[str, RotaryEmbedding] = WeakValueDictionary()


def get_rope(
    head_dim: int,
    rotary_dim: int,
    max_position: int,
    base: float,
    rope_scaling: Mapping[str, Any] | None = None,
) -> RotaryEmbedding:
    """The rotary embedding with these parameters; an equal one that is alive is shared."""
    key = json.dumps([head_dim, rotary_dim, max_position, base, dict(rope_scaling or {})])
    if (rope := _LIVE.get(key)) is None:
        rope = RotaryEmbedding(head_dim, rotary_dim, max_position, base, rope_scaling)
        _LIVE[key] = rope
    return rope
