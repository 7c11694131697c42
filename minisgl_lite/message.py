"""What enters and leaves a scheduler (mini-sglang: message/, without its process queues)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .core import SamplingParams


@dataclass(frozen=True)
class UserMsg:
    """A new request. ``input_ids``: (input_len,) int32 on the CPU. ``uid`` names it in results."""

    uid: int
    input_ids: torch.Tensor
    sampling_params: SamplingParams


@dataclass(frozen=True)
class AbortBackendMsg:
    """Stop request ``uid``. Nothing is sent back; an unknown ``uid`` is ignored."""

    uid: int


BackendMsg = UserMsg | AbortBackendMsg


@dataclass(frozen=True)
class DetokenizeMsg:
    """One output token of request ``uid``, or its error.

    ``reason`` is None while the request goes on, then "stop" (an end-of-sequence token) or "length"
    (its last token); for an error it is "error: …", ``next_token`` is -1 and ``finished`` True.
    """

    uid: int
    next_token: int
    finished: bool
    reason: str | None = None
