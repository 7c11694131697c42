"""Behaviours of mini-sglang as published (commit 20fcd7f), put into this package's engine.

Each is a class that names, for some parts of a scheduler, the small subclass to build it from. The
engine has no switch for them: ``published_scheduler`` hands them in from outside. Where a behaviour
comes from is said by file and function there; ``reference.py`` runs those files themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

import torch

from ..core import Batch, Context, Req, use_ctx
from ..distributed import get_tp_info
from ..kvcache import BaseCacheHandle, radix_cache
from ..message import DetokenizeMsg
from ..scheduler.cache import CacheManager
from ..scheduler.decode import DecodeManager
from ..scheduler.prefill import ChunkedReq, PrefillAdder, PrefillManager
from ..scheduler.scheduler import Managers, Scheduler
from ..scheduler.table import TableManager
from ..scheduler.utils import PendingReq
from ..utils import Registry
from ..utils.tensors import copy_ids

S = TypeVar("S", bound=Scheduler)


class Behaviour:
    """The class to build each part of a scheduler from."""

    Cache: type[CacheManager] = CacheManager
    Table: type[TableManager] = TableManager
    Decode: type[DecodeManager] = DecodeManager
    Prefill: type[PrefillManager] = PrefillManager
    Loop: type[Scheduler] = Scheduler


PUBLISHED: Registry[type[Behaviour]] = Registry("published behaviour")
"""The behaviours of this module by name."""


def published_managers(*names: str) -> Managers:
    """The manager classes with the named behaviours; the rest of a scheduler has none.

    Raises:
        ValueError: an unknown name.
    """
    chosen = [PUBLISHED[name] for name in names]
    return Managers(
        cache=_mix(CacheManager, [one.Cache for one in chosen]),
        table=_mix(TableManager, [one.Table for one in chosen]),
        decode=_mix(DecodeManager, [one.Decode for one in chosen]),
        prefill=_mix(PrefillManager, [one.Prefill for one in chosen]),
    )


def published_scheduler(*names: str, base: type[S] = Scheduler) -> type[S]:  # type: ignore[assignment]
    """``base`` (``Scheduler``, ``Toy`` or ``LLM``) with the named behaviours put in.

    ``published_scheduler("stale-rows")(config, engine, io)`` makes one; with all of
    ``PUBLISHED.supported_names()`` it goes step for step with the published one.

    Raises:
        ValueError: an unknown name.
    """
    loop: Any = _mix(base, [PUBLISHED[name].Loop for name in names])
    parts = published_managers(*names)

    def __init__(self: Scheduler, *args: Any, **kwargs: Any) -> None:
        super(made, self).__init__(*args, managers=parts, **kwargs)

    members = {"__init__": __init__, "__doc__": f"{base.__name__} with: {', '.join(names)}."}
    made: Any = type(f"Published{base.__name__}", (loop,), members)
    return cast("type[S]", made)


def _mix(base: type, classes: list[type]) -> Any:
    """One class that is all of ``classes`` at once, above ``base``."""
    own = tuple(dict.fromkeys(one for one in classes if not issubclass(base, one)))
    return type(f"Published{base.__name__}", (*own, base), {}) if own else base


@PUBLISHED.register("token-wise-admission")
class TokenWiseAdmission(Behaviour):
    """Admission counts tokens, allocation takes pages.

    scheduler/prefill.py, ``PrefillAdder._try_allocate_one`` compares input + output - cached tokens
    with what is available; scheduler/decode.py, ``DecodeManager.inflight_tokens`` adds the tokens
    that the running requests may still get, and P - 1 for each. Several requests whose last pages
    are partly filled can be admitted together and then need more pages than there are: the
    allocation fails, and the error leaves the loop. With P = 1 the two counts agree.
    """

    class Prefill(PrefillManager):
        class Adder(PrefillAdder):
            def _needed_size(self, req: PendingReq, cached_len: int) -> int:
                return req.input_len + req.output_len - cached_len

    class Decode(DecodeManager):
        @property
        def inflight_tokens(self) -> int:
            spare = (self.page_size - 1) * len(self.running_reqs)
            return sum(req.remain_len for req in self.running_reqs) + spare


@PUBLISHED.register("stale-rows")
class StaleRows(Behaviour):
    """A duplicate prefix goes back to the free list while a living row still points at it.

    scheduler/cache.py, ``CacheManager.cache_req`` with ``finished=False`` frees what another
    request has inserted meanwhile, takes the new handle, and leaves the request's row as it was.
    The next owner of those pages writes into them, and the request's later steps read that.
    """

    class Cache(CacheManager):
        def _remap(
            self, row: torch.Tensor, handle: BaseCacheHandle, start: int, end: int
        ) -> list[int] | None:
            return None


@PUBLISHED.register("cold-partial-hits")
class ColdPartialHits(Behaviour):
    """A hit on a part of a node does not count as a use of that part.

    kvcache/radix_cache.py, ``RadixPrefixCache._tree_walk`` returns from a split before it gives its
    time to the node, and ``RadixTreeNode.split_at`` copies the old time to the matched half. So a
    prefix that is used again and again in part can be evicted before one that was used once.
    """

    class RadixPrefixCache(radix_cache.RadixPrefixCache):
        def _use(self, node: radix_cache.RadixTreeNode, tic: int, partial: bool) -> None:
            if not partial:
                super()._use(node, tic, partial)

    class Cache(CacheManager):
        def __init__(
            self, num_pages: int, page_size: int, page_table: torch.Tensor, type: str
        ) -> None:
            super().__init__(num_pages, page_size, page_table, type)
            if isinstance(self.prefix_cache, radix_cache.RadixPrefixCache):
                with use_ctx(Context(page_size, tp_info=get_tp_info())):
                    self.prefix_cache = ColdPartialHits.RadixPrefixCache(self.device)


@PUBLISHED.register("set-order")
class SetOrder(Behaviour):
    """A decode batch has the order of a set.

    scheduler/decode.py, ``DecodeManager.running_reqs`` is a set of requests that are hashed by
    address; ``schedule_next_batch`` lists it. The order differs between runs and between processes.
    """

    class Decode(DecodeManager):
        def __post_init__(self) -> None:
            self.running_reqs = set(self.running_reqs)

        def filter_reqs(self, reqs: Iterable[Req]) -> None:
            candidates = {*self.running_reqs, *reqs}
            self.running_reqs = {req for req in candidates if req.can_decode}


@PUBLISHED.register("late-abort")
class LateAbort(Behaviour):
    """An aborted request is released at once; the result of its step on the device still counts.

    scheduler/scheduler.py, ``Scheduler._process_one_msg`` looks among the waiting and the running
    requests only and frees what it finds. ``Scheduler._process_last_data`` then meets the request
    in the launched batch: its token is sent, and it is released a second time, or its freed pages
    are cached once more. scheduler/table.py, ``TableManager.free`` takes a row back twice.
    """

    class Table(TableManager):
        def free(self, slot: int) -> None:
            self._free_slots.append(slot)
            if self.hooks.active:
                self.hooks.emit("on_row", slot, False)

    class Loop(Scheduler):
        def _abort_request(self, uid: int) -> None:
            waiting = any(pending.uid == uid for pending in self.prefill_manager.pending_list)
            held = self.prefill_manager.abort_req(uid) or self.decode_manager.abort_req(uid)
            if self.hooks.active and (waiting or held is not None):
                self.hooks.emit("on_abort", uid, held)
            if held is not None:
                self._free_req_resources(held)


@PUBLISHED.register("early-finish")
class EarlyFinish(Behaviour):
    """Under overlap ``finished`` is said a token early, and tokens follow it.

    scheduler/scheduler.py, ``Scheduler._process_last_data`` asks ``can_decode``, which the step
    launched meanwhile has moved on; and it sends what that step gives to a request that has ended,
    by length or by an end-of-sequence token, though it does not release it again.
    """

    class Loop(Scheduler):
        def _finish_reason(self, req: Req, next_token: int) -> str | None:
            if next_token in self.eos_token_ids and not req.sampling_params.ignore_eos:
                return "stop"
            return None if req.can_decode else "length"

        def _take_result(self, req: Req, next_token: int, batch: Batch) -> DetokenizeMsg | None:
            if req not in self.finished_reqs or isinstance(req, ChunkedReq):
                return super()._take_result(req, next_token, batch)
            req.append_host(torch.tensor([next_token], dtype=torch.int32))
            reason = self._finish_reason(req, next_token)
            if self.hooks.active:
                self.hooks.emit("on_token", req, next_token, reason is not None, reason)
            return DetokenizeMsg(req.uid, next_token, reason is not None, reason)


@PUBLISHED.register("row-reuse")
class RowReuse(Behaviour):
    """A freed row is refilled while the former owner's extra step is still on the device.

    scheduler/prefill.py, ``PrefillAdder._try_allocate_one`` and ``_add_one_req`` copy prompt ids to
    ``token_pool`` in the scheduler's own stream, which does not wait for the engine's. The step
    that still runs can then read the new owner's ids as its own, and puts the token that it samples
    over one of them.
    """

    class Table(TableManager):
        def write_tokens(self, row: int, start: int, ids: torch.Tensor) -> None:
            copy_ids(self.token_pool[row, start : start + len(ids)], ids)
