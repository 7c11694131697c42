"""Where the tokens of a batch stand: positions, what to read, where to write."""

from __future__ import annotations

from typing import TypeAlias

import torch

from ..core import Batch
from ..utils.tensors import to_device

Indice2D: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Rows and columns of ``page_table`` and ``token_pool``, both (n,) int64."""


def make_positions(batch: Batch, device: torch.device) -> torch.Tensor:
    """The positions [cached_len, device_len) of each padded request in turn: (T,) int32."""
    positions: list[int] = []
    for req in batch.padded_reqs:
        positions.extend(range(req.cached_len, req.device_len))
    return to_device(positions, torch.int32, device)


def make_input_tuple(batch: Batch, device: torch.device) -> Indice2D:
    """(row, position) of every token the model sees, in the order in which it sees them: T each."""
    rows: list[int] = []
    for req in batch.padded_reqs:
        rows.extend([req.table_idx] * req.extend_len)
    return to_device(rows, torch.int64, device), batch.positions.to(torch.int64)


def make_write_tuple(batch: Batch, device: torch.device) -> Indice2D:
    """(row, column) of ``token_pool`` for each sampled token; column -1 throws it away."""
    rows = [req.table_idx for req in batch.reqs]
    cols = [req.device_len if req.can_decode else -1 for req in batch.reqs]
    return to_device(rows, torch.int64, device), to_device(cols, torch.int64, device)
