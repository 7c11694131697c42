"""Faults of the page queue and of the table rows."""

from __future__ import annotations

from unittest.mock import patch

import torch

from minisgl_lite.core import Req
from minisgl_lite.kvcache import MatchResult, RadixCacheHandle
from minisgl_lite.scheduler import CacheManager, PendingReq, TableManager


class DoubleFree(CacheManager):
    """What an ended request returns is returned twice."""

    def _free(self, indices: torch.Tensor) -> None:
        super()._free(indices)
        super()._free(indices)


class FreedTail(CacheManager):
    """The part page of a request that lives on is returned after its prefill."""

    def cache_req(self, req: Req, *, finished: bool) -> None:
        super().cache_req(req, finished=finished)
        if not finished:
            start = req.cache_handle.cached_len
            end = -(-req.cached_len // self.page_size) * self.page_size
            self._free(self.page_table[req.table_idx, start:end])


class LostTail(CacheManager):
    """The part page of an ended request is not returned."""

    def cache_req(self, req: Req, *, finished: bool) -> None:
        whole = req.cached_len // self.page_size * self.page_size
        if not finished or whole == req.cached_len or self.page_size == 1:
            return super().cache_req(req, finished=finished)
        written, req.cached_len = req.cached_len, whole
        super().cache_req(req, finished=finished)
        req.cached_len = written


class LostDuplicate(CacheManager):
    """Pages that another request has registered meanwhile are not returned."""

    def cache_req(self, req: Req, *, finished: bool) -> None:
        returned: list[torch.Tensor] = []
        with patch.object(self, "_free", returned.append):
            super().cache_req(req, finished=finished)
        if finished:
            self._free(returned[-1])  # the tail comes last


class DummyPage(CacheManager):
    """The pool's extra page is handed out like any other."""

    def __init__(self, num_pages: int, page_size: int, page_table: torch.Tensor, type: str) -> None:
        super().__init__(num_pages, page_size, page_table, type)
        every = torch.arange(num_pages + 1, dtype=torch.int32) * page_size
        self.free_slots = every.flip(0)


class OneSlotOffPages(CacheManager):
    """Pages that come back begin one slot further."""

    def _free(self, indices: torch.Tensor) -> None:
        super()._free(indices + 1)


class HandedOutTwice(CacheManager):
    """A page stays in the list of free ones when it is handed out."""

    def _allocate(self, needed_pages: int) -> torch.Tensor:
        pages = super()._allocate(needed_pages)
        self._free(self._page_to_token(pages[:1]))
        return pages


class EvictedPagesAsTokens(CacheManager):
    """Eviction is asked for as many tokens as pages are missing."""

    def _allocate(self, needed_pages: int) -> torch.Tensor:
        evict, page_size = self.prefix_cache.evict, self.page_size
        with patch.object(self.prefix_cache, "evict", lambda tokens: evict(tokens // page_size)):
            return super()._allocate(needed_pages)


class WholeMatch(CacheManager):
    """The last prompt token is taken from the cache too, and nothing is left to compute."""

    def match_req(self, req: PendingReq) -> MatchResult:
        return self.prefix_cache.match_prefix(req.input_ids)


class RowViews(CacheManager):
    """The tree keeps a view of the row instead of a copy of its slots."""

    def cache_req(self, req: Req, *, finished: bool) -> None:
        super().cache_req(req, finished=finished)
        if not finished and isinstance(req.cache_handle, RadixCacheHandle):
            node, end = req.cache_handle.node, req.cache_handle.cached_len
            if not node.is_root():
                node._value = self.page_table[req.table_idx, end - node.length : end]


class RowKept(TableManager):
    """The row of the first request that ends does not come back."""

    kept = False

    def free(self, slot: int) -> None:
        if self.kept:
            super().free(slot)
        self.kept = True


class LastTokenOfRowLost(TableManager):
    """The copy of prompt ids to the token pool leaves out the last."""

    def write_tokens(self, row: int, start: int, ids: torch.Tensor) -> None:
        super().write_tokens(row, start, ids[:-1])
