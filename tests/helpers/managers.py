"""The four managers of a scheduler without a scheduler: for tests of one of them at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from minisgl_lite.core import Batch, Req, SamplingParams
from minisgl_lite.message import UserMsg
from minisgl_lite.scheduler.cache import CacheManager
from minisgl_lite.scheduler.decode import DecodeManager
from minisgl_lite.scheduler.prefill import ChunkedReq, PrefillManager
from minisgl_lite.scheduler.table import TableManager


def ints(values: Sequence[int]) -> torch.Tensor:
    return torch.tensor(list(values), dtype=torch.int32)


class Managers(NamedTuple):
    cache: CacheManager
    table: TableManager
    decode: DecodeManager
    prefill: PrefillManager

    def add(self, uid: int, ids: Sequence[int], max_tokens: int = 1) -> None:
        self.prefill.add_one_req(UserMsg(uid, ints(ids), SamplingParams(max_tokens=max_tokens)))

    def schedule(self, budget: int = 8192) -> Batch | None:
        return self.prefill.schedule_next_batch(budget) or self.decode.schedule_next_batch()

    def run(self, batch: Batch, token: int = 7) -> None:
        """One step of the plain loop, without a model."""
        self.cache.allocate_paged(batch.reqs)
        for req in batch.reqs:
            req.complete_one()
        self.decode.filter_reqs(batch.reqs)
        with self.cache.lazy_free_region():
            for req in batch.reqs:
                if isinstance(req, ChunkedReq):
                    continue
                req.append_host(ints([token]))
                if not req.can_decode:
                    self.finish(req)
                elif batch.is_prefill:
                    self.cache.cache_req(req, finished=False)

    def finish(self, req: Req) -> None:
        self.decode.remove_req(req)
        self.table.free(req.table_idx)
        self.cache.cache_req(req, finished=True)


def make_managers(
    num_pages: int, page_size: int, rows: int = 8, width: int = 64, type: str = "radix"
) -> Managers:
    page_table = torch.zeros((rows + 1, width), dtype=torch.int32)
    cache = CacheManager(num_pages, page_size, page_table, type)
    table, decode = TableManager(rows, page_table), DecodeManager(page_size)
    return Managers(cache, table, decode, PrefillManager(cache, table, decode))


def uids(batch: Batch | None) -> list[int]:
    return [] if batch is None else [req.uid for req in batch.reqs]
