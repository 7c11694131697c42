"""Small host lists become device tensors here, so that every copy is pinned and non-blocking."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def to_device(
    values: Sequence[int] | Sequence[float], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """``values`` as a one-dimensional tensor on ``device``.

    On CUDA the copy is pinned and non-blocking: the host goes on, and the current stream orders it.
    """
    if device.type != "cuda":
        return torch.tensor(values, dtype=dtype, device=device)
    host = torch.tensor(values, dtype=dtype, pin_memory=True)
    return host.to(device, non_blocking=True)


def copy_ids(target: torch.Tensor, ids: torch.Tensor) -> None:
    """Copy host ids into ``target`` (a device view of the same length), without waiting on CUDA."""
    if target.is_cuda:
        ids = ids.pin_memory()
    target.copy_(ids, non_blocking=True)
