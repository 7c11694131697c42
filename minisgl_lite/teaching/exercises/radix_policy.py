"""A prefix cache of one's own: pages by their whole prefix, locks, and who goes first."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...core import Context, use_ctx
from ...distributed import get_tp_info
from ...kvcache import (
    BaseCacheHandle,
    BasePrefixCache,
    InsertResult,
    MatchResult,
    RadixPrefixCache,
    SizeInfo,
)
from ...kvcache.radix_cache import RadixTreeNode
from ...scheduler import CacheManager, Managers
from ...toy import Toy
from ...utils import align_down
from ..checks import expect
from ..checks.exercise import Exercise, add
from ..checks.learner import Learner, Wrong, brief
from ..checks.lockstep import compare, play, random_stream

CPU = torch.device("cpu")
TAG = "m07"

Op = tuple[Any, ...]
"""("insert", ids, slots) · ("match", ids) · ("lock", n) and ("unlock", n), of the handle that
operation n gave · ("evict", tokens)."""


class OnePageNodes(RadixPrefixCache):
    """The package's tree with a node for each page, so that eviction takes single pages."""

    def _add_leaf(
        self, parent: RadixTreeNode, key: torch.Tensor, value: torch.Tensor
    ) -> RadixTreeNode:
        for at in range(0, len(key), self.page_size):
            page = slice(at, at + self.page_size)
            parent = super()._add_leaf(parent, key[page], value[page])
        return parent


class OnePageManager(CacheManager):
    """The package's manager around such a tree."""

    def __init__(self, num_pages: int, page_size: int, page_table: torch.Tensor, type: str) -> None:
        super().__init__(num_pages, page_size, page_table, type)
        self.prefix_cache = one_page_nodes(page_size)


def one_page_nodes(page_size: int) -> OnePageNodes:
    with use_ctx(Context(page_size, tp_info=get_tp_info())):
        return OnePageNodes(CPU)


@dataclass(frozen=True)
class YourHandle(BaseCacheHandle):
    """``yours``: what the learner's class gave; nobody else looks inside."""

    yours: Any
    slots: list[int]

    def get_matched_indices(self) -> torch.Tensor:
        return torch.tensor(self.slots, dtype=torch.int32)


class YourCache(BasePrefixCache):
    """The engine's prefix cache, answered by an object of the learner's class."""

    def __init__(self, learner: Learner, page_size: int) -> None:
        self.page_size = page_size
        self.yours = learner.new(page_size)
        self._tokens = 0

    def match_prefix(self, input_ids: torch.Tensor) -> MatchResult:
        ids = input_ids.tolist()
        handle = self._handle(self.yours.call("match", ids), len(ids))
        return MatchResult(handle)

    def insert_prefix(self, input_ids: torch.Tensor, indices: torch.Tensor) -> InsertResult:
        ids, slots = input_ids.tolist(), indices.tolist()
        called = f"PageCache.insert({brief(ids)}, {brief(slots)})"
        value = self.yours.call("insert", ids, slots)
        if not isinstance(value, tuple | list) or len(value) != 2:
            what = "None (is a return missing?)" if value is None else brief(value)
            raise Wrong(f"{called} returned {what}; a pair (known, handle) is wanted")
        whole = align_down(len(ids), self.page_size)
        known = expect.whole(value[0], f"{called}[0]")
        if not 0 <= known <= whole or known % self.page_size:
            raise Wrong(f"{called} says that {known} tokens were known; {whole} fill whole pages")
        handle = self._handle(value[1], whole)
        if handle.cached_len != whole:
            raise Wrong(
                f"{called}: the handle stands for {handle.cached_len} tokens; {whole} fill whole"
                " pages and are cached now"
            )
        self._tokens += whole - known
        return InsertResult(known, handle)

    def _handle(self, yours: Any, most: int) -> YourHandle:
        called = f"PageCache.slots({brief(yours, 40)})"
        slots = expect.listed(self.yours.call("slots", yours), called)
        for slot in slots:
            expect.whole(slot, f"an entry of {called}")
        if len(slots) > most or len(slots) % self.page_size:
            raise Wrong(
                f"{called} has {len(slots)} slots; whole pages of {self.page_size} are shared, and"
                f" the handle was given for {most} tokens"
            )
        return YourHandle(len(slots), yours, slots)

    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        assert isinstance(handle, YourHandle)
        self.yours.call("unlock" if unlock else "lock", handle.yours)

    def evict(self, size: int) -> torch.Tensor:
        called = f"PageCache.evict({size})"
        slots = expect.listed(self.yours.call("evict", size), called)
        for slot in slots:
            expect.whole(slot, f"an entry of {called}")
        if len(slots) < size or len(slots) % self.page_size:
            raise Wrong(
                f"{called} returned {len(slots)} slots; whole pages, and at least {size} slots,"
                " are wanted"
            )
        self._tokens -= len(slots)
        return torch.tensor(slots, dtype=torch.int32)

    def reset(self) -> None:
        raise NotImplementedError

    @property
    def size_info(self) -> SizeInfo:
        evictable = expect.whole(self.yours.call("evictable"), "PageCache.evictable()")
        return SizeInfo(evictable, self._tokens - evictable)

    def check_integrity(self) -> None:
        pass


def _check(learner: Learner, rng: random.Random) -> None:
    for page_size in (2, 1, 3):
        for ops in _stories(page_size):
            _play(learner, page_size, ops)
    for page_size in (1, 2, 4):
        for _ in range(3):
            _play(learner, page_size, _random_ops(rng, page_size))

    for page_size in (2, 1, rng.choice([3, 4])):
        stream = random_stream(rng, page_size=page_size, cache_type="radix")
        ours = Managers(cache=OnePageManager)
        compare(
            stream,
            Managers(),
            beside=ours,
            put_in=lambda toy: _put_in(learner, toy),
            misconception=TAG,
        )


def _put_in(learner: Learner, toy: Toy) -> None:
    toy.cache_manager.prefix_cache = YourCache(learner, toy.cache_manager.page_size)


def _stories(size: int) -> list[list[Op]]:
    """Short ones, each about one rule, for pages of ``size`` tokens."""
    a, b, c, d = ([10 * k + i for i in range(size)] for k in (1, 2, 3, 4))
    slots = [list(range(n * size, (n + 4) * size)) for n in range(0, 16, 4)]
    first, second, third = slots[0], slots[1], slots[2]
    two, three = 2 * size, 3 * size
    stories: list[list[Op]] = [
        [("match", a), ("evict", 0)],
        [("insert", [*a, *b, 9], first[: two + 1]), ("match", [*a, *b, 9]), ("match", [*a, *c])],
        [("insert", [*a, *b], first[:two]), ("match", [*a, *b[:-1], 99]), ("match", b)],
        [("insert", [*a, *b], first[:two]), ("match", [*a, *b[:-1]])],
        [("insert", a[:-1], first[: size - 1]), ("match", a)],
        [("insert", [*a, *b], first[:two]), ("insert", [*a, *b, *c], second[:three])],
        [("insert", a, first[:size]), ("insert", b, second[:size]), ("match", a), ("evict", size)],
        [("insert", a, first[:size]), ("insert", b, second[:size]), ("evict", size)],
        [
            ("insert", a, first[:size]),
            ("insert", b, second[:size]),
            ("insert", a, third[:size]),
            ("evict", size),
        ],
        [
            ("insert", [*a, *b], first[:two]),
            ("insert", [*a, *c], second[:two]),
            ("evict", size),
            ("evict", 1),
            ("evict", size),
        ],
        [("insert", [*a, *b, *c], first[:three]), ("evict", two), ("match", [*a, *b, *c])],
        [
            ("insert", a, first[:size]),
            ("insert", b, second[:size]),
            ("lock", 0),
            ("evict", size),
            ("unlock", 0),
            ("evict", size),
        ],
        [("insert", a, first[:size]), ("lock", 0), ("lock", 0), ("unlock", 0), ("unlock", 0)],
        [
            ("insert", [*a, *b], first[:two]),
            ("match", [*a, *d]),
            ("lock", 0),
            ("lock", 1),
            ("unlock", 0),
            ("evict", size),
            ("unlock", 1),
            ("evict", size),
        ],
        [
            ("insert", [*a, *b], first[:two]),
            ("insert", c, second[:size]),
            ("match", [*a, *d]),
            ("lock", 2),
            ("insert", [*a, *d], third[:two]),
            ("evict", two),
            ("unlock", 2),
        ],
    ]
    if size == 2:
        # Two prefixes that are the same when their ids are written one after the other.
        stories.append([("insert", [1, 12], first[:2]), ("match", [11, 2]), ("match", [112, 0])])
    return stories


def _random_ops(rng: random.Random, size: int) -> list[Op]:
    stems = [[rng.randrange(3) for _ in range(size)] for _ in range(3)]
    ops: list[Op] = []
    handles: list[int] = []
    locked: list[int] = []
    fresh = 0
    for _ in range(40):
        ids = [t for _ in range(rng.randrange(1, 4)) for t in rng.choice(stems)]
        ids += [rng.randrange(3) for _ in range(rng.randrange(size))]
        kind = rng.choice(["insert", "insert", "match", "lock", "unlock", "evict"])
        if kind == "insert":
            ops.append(("insert", ids, list(range(fresh, fresh + len(ids)))))
            fresh += align_down(len(ids) + size, size)
            handles.append(len(ops) - 1)
        elif kind == "match":
            ops.append(("match", ids))
            handles.append(len(ops) - 1)
        elif kind == "lock" and handles:
            # Only what was just matched: an older handle's pages may have gone.
            ops.append(("lock", handles[-1]))
            locked.append(handles[-1])
        elif kind == "unlock" and locked:
            ops.append(("unlock", locked.pop(rng.randrange(len(locked)))))
        elif kind == "evict":
            ops.append(("evict", rng.randrange(1, 2 * size + 1)))
            handles = []
    return ops


def _play(learner: Learner, page_size: int, ops: Sequence[Op]) -> None:
    """The same operations on ours and on the learner's; Wrong with the first that differs."""
    ours, yours = one_page_nodes(page_size), YourCache(learner, page_size)
    handles: dict[int, tuple[BaseCacheHandle, BaseCacheHandle]] = {}
    for number, (kind, *args) in enumerate(ops):
        if kind == "evict":
            args = [min(args[0], ours.evictable_size)]
        story = f"pages of {page_size}: {_told(ops, number, args)}"
        if kind in ("lock", "unlock"):
            for cache, handle in zip((ours, yours), handles[args[0]], strict=True):
                cache.lock_handle(handle, unlock=kind == "unlock")
        elif kind == "evict":
            right, found = (cache.evict(args[0]).tolist() for cache in (ours, yours))
            _same(found, right, f"{story} gave up slots")
        elif kind == "match":
            ids = torch.tensor(args[0], dtype=torch.int32)
            pair = [cache.match_prefix(ids).cuda_handle for cache in (ours, yours)]
            handles[number] = (pair[0], pair[1])
            right, found = (handle.get_matched_indices().tolist() for handle in pair)
            _same(found, right, f"{story} found slots")
        else:
            ids, slots = (torch.tensor(x, dtype=torch.int32) for x in args)
            known, handle = ours.insert_prefix(ids, slots)
            their_known, theirs = yours.insert_prefix(ids, slots)
            handles[number] = (handle, theirs)
            _same(their_known, known, f"{story}; the tokens known before are")
            right, found = (h.get_matched_indices().tolist() for h in (handle, theirs))
            _same(found, right, f"{story}; its handle has slots")
        evictable = yours.size_info.evictable_size
        _same(evictable, ours.evictable_size, f"{story}; evictable() is then")


def _same(found: Any, right: Any, what: str) -> None:
    if found != right:
        raise Wrong(f"{what} {brief(found)}; it should be {brief(right)}", TAG)


def _told(ops: Sequence[Op], number: int, args: list[Any]) -> str:
    """The last operations up to ``number``, as the learner would write them."""
    told = []
    for at in range(max(0, number - 4), number + 1):
        kind, *values = ops[at]
        values = args if at == number else values
        if kind in ("lock", "unlock"):
            text = f"{kind}(handle of {brief(ops[values[0]][1])})"
        else:
            text = f"{kind}({', '.join(brief(value) for value in values)})"
        told.append(text)
    return ("…, " if number > 4 else "") + ", ".join(told)


add(
    Exercise(
        name="radix-policy",
        kind="build",
        answer="PageCache",
        objective="build a prefix cache: match, insert, lock, and evict the page used longest ago",
        difficulty=3,
        minutes=60,
        points=10,
        page="radix-tree",
        misconceptions=("m07", "m12"),
        counterparts=tuple(
            f"minisgl_lite.kvcache.radix_cache:RadixPrefixCache.{name}"
            for name in ("match_prefix", "insert_prefix", "lock_handle", "evict", "_tree_walk")
        ),
        hints=(
            "A page's K and V depend on all tokens up to its end. So a page is known by its whole"
            " prefix: a tuple of ids is a good key of a dict, and the prefix a good handle.",
            "For each page keep its slots, how many locks it has, and when it was used last, by a"
            " counter that match and insert move on. A lock counts on every page of the prefix.",
            "A page may go when it has no lock and no known page's prefix is one page longer and"
            " begins with its own. Choose the one with the smallest time, forget it, and look anew:"
            " its parent may be the next.",
        ),
        check=_check,
        scene=lambda learner: play(put_in=lambda toy: _put_in(learner, toy)),
    )
)
