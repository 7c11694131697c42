"""How rotary frequencies are stretched for contexts longer than those trained on.

Each function takes ``inv_freq``, fp32 (rotary_dim / 2,), and the checkpoint's ``rope_scaling``
entries, and returns new frequencies and a factor for cos and sin. The arithmetic follows
transformers' modeling_rope_utils step by step, so that fp32 results agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

Scaled = tuple[torch.Tensor, float]
Scaling = Mapping[str, Any]


def _default(inv_freq: torch.Tensor, base: float, scaling: Scaling) -> Scaled:
    return inv_freq, 1.0


def _linear(inv_freq: torch.Tensor, base: float, scaling: Scaling) -> Scaled:
    """All frequencies divided by one factor."""
    return inv_freq / scaling["factor"], 1.0


def _llama3(inv_freq: torch.Tensor, base: float, scaling: Scaling) -> Scaled:
    """Long waves divided by the factor, short ones kept, a smooth blend between."""
    factor, trained = scaling["factor"], scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    wavelen = 2 * math.pi / inv_freq
    long_wave, short_wave = wavelen > trained / low, wavelen < trained / high
    scaled = torch.where(long_wave, inv_freq / factor, inv_freq)
    # With equal factors no wave lies between them: the blend is never chosen.
    smooth = (trained / wavelen - low) / ((high - low) or 1.0)
    blend = (1 - smooth) * scaled / factor + smooth * scaled
    return torch.where(~long_wave & ~short_wave, blend, scaled), 1.0


def _yarn_attention_factor(scaling: Scaling) -> float:
    if (given := scaling.get("attention_factor")) is not None:
        return float(given)

    def mscale(weight: float) -> float:
        factor = scaling["factor"]
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return mscale(scaling["mscale"]) / mscale(scaling["mscale_all_dim"])
    return mscale(1.0)


def _yarn(inv_freq: torch.Tensor, base: float, scaling: Scaling) -> Scaled:
    """YaRN: a ramp over the dimensions between kept and divided frequencies."""
    dim, trained = 2 * inv_freq.numel(), scaling["original_max_position_embeddings"]

    def correction_dim(rotations: float) -> float:
        return dim * math.log(trained / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low = correction_dim(scaling.get("beta_fast") or 32)
    high = correction_dim(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    width = high - low if high != low else 0.001
    pair = torch.arange(dim // 2, dtype=torch.float, device=inv_freq.device)
    kept = 1 - torch.clamp((pair - low) / width, 0, 1)
    scaled = inv_freq / scaling["factor"] * (1 - kept) + inv_freq * kept
    return scaled, _yarn_attention_factor(scaling)


def _factors(inv_freq: torch.Tensor, base: float, scaling: Scaling) -> Scaled:
    """One divisor per frequency, as GGUF files carry Llama 3's in ``rope_freqs.weight``."""
    divisors = torch.tensor(scaling["factors"], dtype=torch.float, device=inv_freq.device)
    return inv_freq / divisors, 1.0


ROPE_SCALING: dict[str, Callable[[torch.Tensor, float, Scaling], Scaled]] = {
    "default": _default,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
    "factors": _factors,
}
