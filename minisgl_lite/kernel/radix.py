"""How far two runs of token ids agree (mini-sglang: kernel/radix.py)."""

from __future__ import annotations

import torch


def fast_compare_key(x: torch.Tensor, y: torch.Tensor) -> int:
    """The length of the common prefix of ``x`` and ``y``, one-dimensional ids on the CPU.

    Raises:
        ValueError: not one-dimensional, or not on the CPU.
    """
    if x.dim() != 1 or y.dim() != 1 or not x.is_cpu or not y.is_cpu:
        raise ValueError(
            f"keys are one-dimensional and on the CPU, not {tuple(x.shape)} on {x.device}"
            f" and {tuple(y.shape)} on {y.device}."
        )
    common = min(len(x), len(y))
    if common == 0:
        return 0
    differs = x[:common] != y[:common]
    first = int(differs.to(torch.uint8).argmax())  # the first True; 0 also when there is none
    return first if bool(differs[first]) else common
