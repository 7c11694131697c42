"""Faults of admission and of chunks."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from minisgl_lite.core import Req
from minisgl_lite.kvcache import BaseCacheHandle
from minisgl_lite.scheduler import DecodeManager, PendingReq, PrefillAdder, PrefillManager


class NoSecondLook(PrefillManager):
    """Room is not compared again after the lock has taken what was evictable."""

    class Adder(PrefillAdder):
        def _fits(self, need: int) -> bool:
            return self._locked or super()._fits(need)

        _locked = False

        def _try_allocate_one(self, req: PendingReq) -> tuple[BaseCacheHandle, int] | None:
            lock = self.cache_manager.lock

            def note(handle: BaseCacheHandle) -> None:
                lock(handle)
                self._locked = True

            with patch.object(self.cache_manager, "lock", note):
                admitted = super()._try_allocate_one(req)
            self._locked = False
            return admitted


class ForgetsRunning(DecodeManager):
    """What the running requests still need is not kept for them."""

    @property
    def inflight_tokens(self) -> int:
        return 0


class ForgetsBatchMates(PrefillManager):
    """What requests of the same batch need is not kept for them."""

    class Adder(PrefillAdder):
        def _add_one_req(self, *args: Any, **kwargs: Any) -> Req:
            reserved = self.reserved_size
            req = super()._add_one_req(*args, **kwargs)
            self.reserved_size = reserved
            return req


class ForgetsChunks(PrefillManager):
    """What a continued chunk needs is not kept for it."""

    class Adder(PrefillAdder):
        def _needed_size(self, req: PendingReq, cached_len: int) -> int:
            return super()._needed_size(req, cached_len) if req.chunked_req is None else 0


class LostChunk(PrefillManager):
    """A request that is cancelled between two chunks keeps its row and pages."""

    def abort_req(self, uid: int) -> Req | None:
        super().abort_req(uid)
        return None


class ChunkSkips(PrefillManager):
    """A continued chunk begins where the prompt was matched, not where it has come to."""

    class Adder(PrefillAdder):
        def _add_one_req(
            self, pending_req: PendingReq, cache_handle: Any, table_idx: int, cached_len: int
        ) -> Req:
            return super()._add_one_req(
                pending_req, cache_handle, table_idx, cache_handle.cached_len
            )
