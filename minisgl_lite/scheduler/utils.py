"""A request that waits (mini-sglang: scheduler/utils.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from ..core import SamplingParams
    from .prefill import ChunkedReq


@dataclass
class PendingReq:
    """A request in the queue; ``chunked_req`` is what of its prompt was taken so far, if any."""

    uid: int
    input_ids: torch.Tensor
    sampling_params: SamplingParams
    chunked_req: ChunkedReq | None = None

    @property
    def input_len(self) -> int:
        return len(self.input_ids)

    @property
    def output_len(self) -> int:
        return self.sampling_params.max_tokens
