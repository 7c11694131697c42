"""The collectives of tensor parallelism (mini-sglang: distributed/impl.py)."""

from __future__ import annotations

import torch
import torch.distributed as dist

from .info import get_tp_info


class DistributedCommunicator:
    """All-reduce and all-gather among the ranks of the current engine; no-ops on one rank."""

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        """Sum ``x`` over all ranks, in place where the backend can; returns the sum, same shape."""
        if get_tp_info().size > 1:
            dist.all_reduce(x)
        return x

    def all_gather(self, x: torch.Tensor) -> torch.Tensor:
        """Stack the ranks' ``x`` along dimension 0 in rank order: (n, …) -> (size·n, …)."""
        size = get_tp_info().size
        if size == 1:
            return x
        parts = [torch.empty_like(x) for _ in range(size)]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    def smallest(self, value: int, device: torch.device) -> int:
        """The smallest of the ranks' ``value``."""
        if get_tp_info().size == 1:
            return value
        everywhere = torch.tensor(value, dtype=torch.int64, device=device)
        dist.all_reduce(everywhere, op=dist.ReduceOp.MIN)
        return int(everywhere)
