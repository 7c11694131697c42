"""Faults put in on purpose, each a small subclass, to see that the sweep sees them.

Where a fault is one of mini-sglang's published behaviours, it is the one of
``minisgl_lite.teaching.published``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

from minisgl_lite.core import Batch, Context, Req, use_ctx
from minisgl_lite.kvcache import (
    BaseCacheHandle,
    InsertResult,
    MatchResult,
    RadixCacheHandle,
    RadixPrefixCache,
)
from minisgl_lite.kvcache.radix_cache import RadixTreeNode
from minisgl_lite.scheduler import (
    CacheManager,
    DecodeManager,
    ForwardInput,
    Managers,
    PendingReq,
    PrefillAdder,
    PrefillManager,
    Scheduler,
    TableManager,
)
from minisgl_lite.scheduler.mapping import make_input_tuple, make_positions
from minisgl_lite.teaching.published import PUBLISHED, published_managers

from .device import Device
from .naming import Shape
from .play import Kit
from .worlds import Block


class Fault(NamedTuple):
    """What to put in, and where to look for it.

    ``fits``: the blocks of the bound that show it, all streams of the same few requests.

    ``unseen`` says why no run can show it; empty for a fault that must be found.
    """

    kit: Kit
    fits: Callable[[Block], bool]
    unseen: str = ""


# ---- pages and rows ------------------------------------------------------------------------------


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


# ---- the radix tree ------------------------------------------------------------------------------


class Tree(RadixPrefixCache):
    """A prefix cache with a fault; ``holding`` puts it into a cache manager."""

    @classmethod
    def holding(cls) -> type[CacheManager]:
        tree = cls

        class Holder(CacheManager):
            def __init__(
                self, num_pages: int, page_size: int, page_table: torch.Tensor, type: str
            ) -> None:
                super().__init__(num_pages, page_size, page_table, type)
                if type == "radix":
                    with use_ctx(Context(page_size)):
                        self.prefix_cache = tree(self.device)

        return Holder


class NeverLocks(Tree):
    """A lock protects nothing."""

    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        pass


class LocksAncestorsOnly(Tree):
    """A lock leaves out the node that was matched."""

    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        assert isinstance(handle, RadixCacheHandle)
        if not handle.node.is_root():
            length = handle.cached_len - handle.node.length
            super().lock_handle(RadixCacheHandle(length, handle.node.parent), unlock)


class NeverUnlocks(Tree):
    """What was locked once stays."""

    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        if not unlock:
            super().lock_handle(handle)


class EvictsLocked(Tree):
    """Leaves are evicted whether they are locked or not."""

    def _collect_leave_nodes_for_evict(self) -> list[RadixTreeNode]:
        return [node for node in self.nodes() if node.is_leaf()]

    def _remove_leaf(self, node: RadixTreeNode) -> None:
        locks, node.ref_count = node.ref_count, 0
        super()._remove_leaf(node)
        node.ref_count = locks


class SplitForgetsLocks(Tree):
    """The new upper node of a split is not locked by those who hold the lower one."""

    def _split(self, node: RadixTreeNode, pos: int) -> RadixTreeNode:
        upper = super()._split(node, pos)
        upper.ref_count = 0
        return upper


class MatchesTooMuch(Tree):
    """A partly matched node counts as matched to its end."""

    def match_prefix(self, input_ids: torch.Tensor) -> MatchResult:
        node, length = self.root_node, 0
        while len(input_ids) - length >= self.page_size:
            child = node.children.get(self.key_fn(input_ids[length:]))
            if child is None or length + child.length > len(input_ids):
                break
            node, length = child, length + child.length
        return MatchResult(RadixCacheHandle(length, node))


class InsertsPartPages(Tree):
    """A part page is registered like a whole one."""

    def insert_prefix(self, input_ids: torch.Tensor, indices: torch.Tensor) -> InsertResult:
        size, self.page_size = self.page_size, 1
        try:
            return super().insert_prefix(input_ids, indices)
        finally:
            self.page_size = size


# ---- admission -----------------------------------------------------------------------------------


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


# ---- the step and its results --------------------------------------------------------------------


class LooksUpFirst(Scheduler):
    """``out_loc`` is looked up before pages are allocated."""

    def _prepare_batch(self, batch: Batch) -> ForwardInput:
        batch.padded_reqs = batch.reqs
        batch.positions = make_positions(batch, self.device)
        before = self.engine.page_table[make_input_tuple(batch, self.device)]
        prepared = super()._prepare_batch(batch)
        batch.out_loc = before
        return prepared


class PositionsFromZero(Scheduler):
    """After a hit the positions begin at 0 again."""

    def _prepare_batch(self, batch: Batch) -> ForwardInput:
        prepared = super()._prepare_batch(batch)
        ranges = [torch.arange(req.extend_len, dtype=torch.int32) for req in batch.reqs]
        batch.positions = torch.cat(ranges)
        return prepared


class ChunkSpeaks(Scheduler):
    """What is sampled from an unfinished chunk is put into the token pool."""

    def _prepare_batch(self, batch: Batch) -> ForwardInput:
        prepared = super()._prepare_batch(batch)
        rows, _ = prepared.write_tuple
        columns = torch.tensor([req.device_len for req in batch.reqs])
        return prepared._replace(write_tuple=(rows, columns))


class ForgetsOnDevice(Scheduler):
    """A request whose step is on the device when it is cancelled is released at once."""

    def _abort_request(self, uid: int) -> None:
        held = self.prefill_manager.abort_req(uid) or self.decode_manager.abort_req(uid)
        if held is not None:
            self._free_req_resources(held)
            self.finished_reqs = self.finished_reqs | {held}


class ForgetsEnded(Scheduler):
    """The result of a step that was launched before the request ended counts once more."""

    def _take_result(self, req: Req, next_token: int, batch: Batch) -> Any:
        self.finished_reqs = set()
        return super()._take_result(req, next_token, batch)


class OneTokenMore(Scheduler):
    """The end by length is noticed one token late."""

    def _finish_reason(self, req: Req, next_token: int) -> str | None:
        if next_token in self.eos_token_ids:
            return "stop"
        return "length" if len(req.input_ids) > req.max_device_len else None


class IgnoresStop(Scheduler):
    """A stop is not a reason to end."""

    def _finish_reason(self, req: Req, next_token: int) -> str | None:
        return "length" if len(req.input_ids) == req.max_device_len else None


class NeverAborts(Scheduler):
    """A cancelled request goes on to its end."""

    def _abort_request(self, uid: int) -> None:
        pass


# ---- the device ----------------------------------------------------------------------------------


class OneSlotOff(Device):
    """K/V are stored one slot further."""

    def store(self, layer: int, slots: list[int], contents: list[int]) -> None:
        super().store(layer, [slot + 1 for slot in slots], contents)


class LayerLeftOut(Device):
    """The last layer stores nothing."""

    def store(self, layer: int, slots: list[int], contents: list[int]) -> None:
        if layer == 0:
            super().store(layer, slots, contents)


class LayersMixedUp(Device):
    """All layers store into the first one's part of the pool."""

    def store(self, layer: int, slots: list[int], contents: list[int]) -> None:
        super().store(0, slots, contents)


# ---- all of them ---------------------------------------------------------------------------------


def where(
    world: str,
    *shapes: tuple[int, ...],
    loop: str = "",
    cache: str = "",
    page_size: int = 0,
    more_pages: int | None = None,
) -> Callable[[Block], bool]:
    """Blocks of one world with these requests; of one loop, cache, P, pool where it is named."""
    wanted = tuple(Shape(*shape) for shape in shapes)

    def fits(block: Block) -> bool:
        setting = block.setting
        return (
            (setting.world, block.shapes) == (world, wanted)
            and loop in ("", setting.loop)
            and cache in ("", setting.cache)
            and page_size in (0, setting.page_size)
            and more_pages in (None, setting.more_pages)
        )

    return fits


def published(name: str) -> Kit:
    return Kit(scheduler=PUBLISHED[name].Loop, managers=published_managers(name))


def _cache(manager: type[CacheManager]) -> Kit:
    return Kit(managers=Managers(cache=manager))


def _table(manager: type[TableManager]) -> Kit:
    return Kit(managers=Managers(table=manager))


def _admission(manager: type[PrefillManager]) -> Kit:
    return Kit(managers=Managers(prefill=manager))


ONE_EACH = ((1, 1), (1, 1))
ONE_AND_TWO = ((1, 1), (1, 2))

FAULTS: dict[str, Fault] = {
    "stale row": Fault(published("stale-rows"), where("a", *ONE_AND_TWO)),
    "double free": Fault(_cache(DoubleFree), where("a", *ONE_EACH)),
    "freed tail of a live request": Fault(_cache(FreedTail), where("a", *ONE_AND_TWO)),
    "lost tail": Fault(_cache(LostTail), where("a", *ONE_EACH)),
    "lost duplicate": Fault(_cache(LostDuplicate), where("a", *ONE_EACH)),
    "dummy page handed out": Fault(_cache(DummyPage), where("a", *ONE_EACH)),
    "page handed out twice": Fault(_cache(HandedOutTwice), where("a", *ONE_EACH)),
    "pages evicted as tokens": Fault(
        _cache(EvictedPagesAsTokens), where("d", (1, 2), (1, 2), (3, 1), cache="radix", page_size=2)
    ),
    "whole prompt matched": Fault(_cache(WholeMatch), where("a", *ONE_EACH)),
    "view of a row in the tree": Fault(_cache(RowViews), where("a", (1, 2), (1, 1))),
    "row not given back": Fault(_table(RowKept), where("a", *ONE_EACH)),
    "prompt token not copied": Fault(_table(LastTokenOfRowLost), where("a", *ONE_EACH)),
    "missed lock": Fault(_cache(NeverLocks.holding()), where("a", *ONE_AND_TWO)),
    "lock of the ancestors only": Fault(
        _cache(LocksAncestorsOnly.holding()), where("a", *ONE_AND_TWO)
    ),
    "missed unlock": Fault(_cache(NeverUnlocks.holding()), where("a", *ONE_AND_TWO)),
    "eviction of locked leaves": Fault(
        _cache(EvictsLocked.holding()),
        where("d", (1, 2), (3, 1), (3, 2), cache="radix", page_size=1, more_pages=2),
    ),
    "split without its locks": Fault(
        _cache(SplitForgetsLocks.holding()),
        where("a", (1, 2), (1, 1), loop="overlap", cache="radix"),
    ),
    "hit without a split": Fault(_cache(MatchesTooMuch.holding()), where("a", (1, 2, 1), (3, 1))),
    "part page registered": Fault(_cache(InsertsPartPages.holding()), where("a", *ONE_EACH)),
    "token-wise admission": Fault(published("token-wise-admission"), where("b", *ONE_EACH)),
    "no second look after the lock": Fault(
        _admission(NoSecondLook), where("d", (2, 2), (1, 1), (3, 1), page_size=2)
    ),
    "running requests forgotten": Fault(
        Kit(managers=Managers(decode=ForgetsRunning)), where("a", (1, 3, 2), (1, 2))
    ),
    "batch-mates forgotten": Fault(_admission(ForgetsBatchMates), where("a", (1, 2, 1), (1, 2, 1))),
    "chunk forgotten": Fault(_admission(ForgetsChunks), where("c", (3, 1), (1, 1), page_size=2)),
    "chunk not released by an abort": Fault(_admission(LostChunk), where("c", (1, 1), (2, 1))),
    "chunk begins anew": Fault(_admission(ChunkSkips), where("c", (1, 1), (2, 1))),
    "write before allocate": Fault(Kit(scheduler=LooksUpFirst), where("a", *ONE_EACH)),
    "positions from zero after a hit": Fault(
        Kit(scheduler=PositionsFromZero), where("a", (1, 1), (2, 1))
    ),
    "late abort": Fault(published("late-abort"), where("a", *ONE_EACH, loop="overlap")),
    "abort that forgets the device": Fault(Kit(scheduler=ForgetsOnDevice), where("a", *ONE_EACH)),
    "ended request taken again": Fault(Kit(scheduler=ForgetsEnded), where("a", (1, 1), (1, 2, 1))),
    "early finish": Fault(published("early-finish"), where("a", (1, 1), (1, 3))),
    "one token more": Fault(Kit(scheduler=OneTokenMore), where("a", *ONE_EACH)),
    "stop ignored": Fault(Kit(scheduler=IgnoresStop), where("a", (1, 1), (1, 1, 1))),
    "abort ignored": Fault(Kit(scheduler=NeverAborts), where("a", *ONE_EACH)),
    "row reuse": Fault(published("row-reuse"), where("a", (1, 2, 1), (2, 1))),
    "off-by-one slot": Fault(Kit(device=OneSlotOff), where("a", *ONE_EACH)),
    "layer left out": Fault(Kit(device=LayerLeftOut), where("a", *ONE_EACH)),
    "two layers mixed up": Fault(Kit(device=LayersMixedUp), where("a", *ONE_EACH)),
    "token of a chunk kept": Fault(
        Kit(scheduler=ChunkSpeaks),
        where("c", (3, 1), (3, 1), loop="overlap", cache="radix", page_size=1),
        unseen=(
            "the next chunk's ids are written over it, after it in the device's order of work;"
            " a test of the scheduler looks at the token pool itself"
        ),
    ),
    "cold order": Fault(
        published("cold-partial-hits"),
        where("d", (2, 2), (3, 1), (3, 2), loop="normal", cache="radix", page_size=1),
        unseen=(
            "it changes which prefix is evicted first; every choice is safe, the wrong one costs a"
            " computation. Tests of the radix cache look at the order"
        ),
    ),
    "set order": Fault(
        published("set-order"),
        where("a", (1, 3), (2, 3), loop="overlap", cache="radix", page_size=1),
        unseen=(
            "each order of a batch gives every request its tokens; only two ranks that differ go"
            " wrong, and a run has one. Tests of the decode manager look at the order"
        ),
    ),
}
