"""Rows of the page table and of the token pool (mini-sglang: scheduler/table.py)."""

from __future__ import annotations

import torch

from ..engine.stream import HostStream, Stream
from ..hooks import NO_HOOKS, Hooks
from ..utils.tensors import copy_ids


class TableManager:
    """Hands out rows as a stack: the highest first, then the one freed last.

    ``page_table``: (rows + 1, W) int32 raw slots; the last row is the dummy request's.
    ``token_pool``: the same shape, int32 token ids, 0 at first. Its column -1 is scratch: it takes
    what is sampled from a row that must not keep it, and is never fed to the model.
    """

    hooks: Hooks = NO_HOOKS

    def __init__(self, max_running_reqs: int, page_table: torch.Tensor) -> None:
        rows = page_table.shape[0]
        if not isinstance(max_running_reqs, int) or not 1 <= max_running_reqs <= rows:
            raise ValueError(
                f"max_running_reqs {max_running_reqs!r} is not allowed: the page table has {rows}"
                " rows."
            )
        self._max_running_reqs = max_running_reqs
        self._free_slots = list(range(max_running_reqs))
        self.page_table = page_table
        self.token_pool = torch.zeros_like(page_table, dtype=torch.int32)
        self.stream: Stream = HostStream()

    @property
    def available_size(self) -> int:
        return len(self._free_slots)

    def allocate(self) -> int:
        """Raises RuntimeError when no row is free; ask ``available_size`` first."""
        if not self._free_slots:
            raise RuntimeError(f"all {self._max_running_reqs} table rows are taken.")
        row = self._free_slots.pop()
        if self.hooks.active:
            self.hooks.emit("on_row", row, True)
        return row

    def free(self, slot: int) -> None:
        if slot in self._free_slots or not 0 <= slot < self._max_running_reqs:
            raise RuntimeError(f"table row {slot} is not in use and can't be freed.")
        self._free_slots.append(slot)
        if self.hooks.active:
            self.hooks.emit("on_row", slot, False)

    def write_tokens(self, row: int, start: int, ids: torch.Tensor) -> None:
        """Put host ``ids`` into ``token_pool[row, start:]``, in the device's order of work.

        NOTE: a former owner's step may still have to read this row; issued in the engine's stream,
        the write can't overtake it.
        """
        target = self.token_pool[row, start : start + len(ids)]
        self.stream.issue(lambda: copy_ids(target, ids))
