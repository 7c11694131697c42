"""Admission: match, lock, compare again, copy (mini-sglang: scheduler/prefill.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from ..core import Batch, Req
from ..hooks import NO_HOOKS, Hooks
from ..kvcache import BaseCacheHandle
from ..message import UserMsg
from ..utils import align_ceil
from .cache import CacheManager
from .decode import DecodeManager
from .table import TableManager
from .utils import PendingReq


class ChunkedReq(Req):
    """A part of a prompt that is not its last: what is sampled after it is thrown away."""

    def append_host(self, next_token: torch.Tensor | int) -> None:
        raise NotImplementedError(f"request {self.uid}: a chunk of a prompt has no output token.")

    @property
    def can_decode(self) -> bool:
        return False


@dataclass
class PrefillAdder:
    """Fills one prefill batch, request by request.

    ``token_budget``: prompt tokens the batch may still take. ``reserved_size``: tokens, in whole
    pages, promised to running requests and to those taken so far.
    """

    token_budget: int
    reserved_size: int
    cache_manager: CacheManager
    table_manager: TableManager

    def try_add_one(self, pending_req: PendingReq) -> Req | None:
        """Take the request, or its next chunk, into the batch; None if it must wait."""
        if self.token_budget <= 0:
            return None
        chunked_req = pending_req.chunked_req
        if chunked_req is not None:  # keeps its row and handle, and was promised its pages
            return self._add_one_req(
                pending_req,
                chunked_req.cache_handle,
                chunked_req.table_idx,
                chunked_req.cached_len,
            )
        resource = self._try_allocate_one(pending_req)
        if resource is None:
            return None
        handle, table_idx = resource
        return self._add_one_req(pending_req, handle, table_idx, handle.cached_len)

    def _try_allocate_one(self, req: PendingReq) -> tuple[BaseCacheHandle, int] | None:
        """A locked handle and a table row with the matched part filled in; None if refused.

        NOTE: a lock moves tokens from evictable to protected, so ``available_size`` shrinks under
        it, and the need is compared once more.
        """
        if self.table_manager.available_size == 0:
            self._refuse(req, 0, "rows")
            return None
        handle = self.cache_manager.match_req(req).cuda_handle
        if self._hooks.active:
            self._hooks.emit("on_match", req, handle)
        need = self._needed_size(req, handle.cached_len)
        if not self._fits(need):
            self._refuse(req, need, "pages")
            return None
        self.cache_manager.lock(handle)
        if not self._fits(need):
            available = self.cache_manager.available_size  # NOTE: the unlock makes it larger again
            self.cache_manager.unlock(handle)
            self._refuse(req, need, "pages", available)
            return None
        table_idx = self.table_manager.allocate()
        if handle.cached_len > 0:
            matched = handle.get_matched_indices()
            self.table_manager.page_table[table_idx, : handle.cached_len] = matched
            self.table_manager.write_tokens(table_idx, 0, req.input_ids[: handle.cached_len])
        return handle, table_idx

    def _add_one_req(
        self,
        pending_req: PendingReq,
        cache_handle: BaseCacheHandle,
        table_idx: int,
        cached_len: int,
    ) -> Req:
        """The part of the prompt that the budget allows, its ids in the token pool.

        Pages for it are allocated when the batch is prepared.
        """
        remain_len = pending_req.input_len - cached_len
        chunk_size = min(self.token_budget, remain_len)
        end = cached_len + chunk_size
        self.token_budget -= chunk_size
        self.reserved_size += self._needed_size(pending_req, cached_len)
        self.table_manager.write_tokens(
            table_idx, cached_len, pending_req.input_ids[cached_len:end]
        )
        kind = ChunkedReq if chunk_size < remain_len else Req
        req = kind(
            input_ids=pending_req.input_ids[:end],
            table_idx=table_idx,
            cached_len=cached_len,
            output_len=pending_req.output_len,
            uid=pending_req.uid,
            sampling_params=pending_req.sampling_params,
            cache_handle=cache_handle,
        )
        if self._hooks.active:
            first = pending_req.chunked_req is None
            matched = cache_handle.get_matched_indices().tolist() if first else None
            self._hooks.emit("on_admit", req, pending_req, matched)
        return req

    def _needed_size(self, req: PendingReq, cached_len: int) -> int:
        """Tokens, in whole pages, beyond those that already hold K/V (a part page counts whole)."""
        page_size = self.cache_manager.page_size
        total = align_ceil(req.input_len + req.output_len, page_size)
        return total - align_ceil(cached_len, page_size)

    def _fits(self, need: int) -> bool:
        return need + self.reserved_size <= self.cache_manager.available_size

    def _refuse(self, req: PendingReq, need: int, why: str, available: int | None = None) -> None:
        """Tell that ``req`` waits, with what was ``available`` when it was compared."""
        if self._hooks.active:
            if available is None:
                available = self.cache_manager.available_size
            self._hooks.emit("on_refuse", req, need, self.reserved_size, available, why)

    @property
    def _hooks(self) -> Hooks:
        return self.cache_manager.hooks


@dataclass
class PrefillManager:
    """The queue of waiting requests: first come, first served; the first refusal ends the batch."""

    cache_manager: CacheManager
    table_manager: TableManager
    decode_manager: DecodeManager
    pending_list: list[PendingReq] = field(default_factory=list)

    Adder = PrefillAdder
    hooks = NO_HOOKS

    def add_one_req(self, req: UserMsg) -> None:
        """Queue a checked request."""
        pending = PendingReq(req.uid, req.input_ids, req.sampling_params)
        self.pending_list.append(pending)
        if self.hooks.active:
            self.hooks.emit("on_receive", pending)

    def schedule_next_batch(self, prefill_budget: int) -> Batch | None:
        """As many requests as fit into ``prefill_budget`` tokens and the pool, in order.

        An unfinished chunk returns to the head of the queue.
        """
        if not self.runnable:
            return None
        adder = self.Adder(
            token_budget=prefill_budget,
            reserved_size=self.decode_manager.inflight_tokens,
            cache_manager=self.cache_manager,
            table_manager=self.table_manager,
        )
        reqs: list[Req] = []
        chunked: list[PendingReq] = []
        for pending in self.pending_list:
            req = adder.try_add_one(pending)
            if req is None:
                break
            pending.chunked_req = req if isinstance(req, ChunkedReq) else None
            if pending.chunked_req is not None:
                chunked.append(pending)
            reqs.append(req)
        if not reqs:
            return None
        self.pending_list = chunked + self.pending_list[len(reqs) :]
        return Batch(reqs=reqs, phase="prefill")

    def abort_req(self, uid: int) -> Req | None:
        """Take the request out of the queue; returns its chunk, if one holds a row and pages."""
        for i, pending in enumerate(self.pending_list):
            if pending.uid == uid:
                self.pending_list.pop(i)
                return pending.chunked_req
        return None

    @property
    def runnable(self) -> bool:
        return len(self.pending_list) > 0
