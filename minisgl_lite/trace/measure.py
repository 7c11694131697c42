"""Numbers over a run: how full the pool is, what lies empty in taken pages, how much is hit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .replay import State
    from .trace import Trace


class PoolUse(NamedTuple):
    """The pool's slots while a step is on the device, its K/V just written. They add up to all.

    ``filled``: a request's own, with K/V. ``empty``: a request's own, without: the rest of its last
    page, or of its prompt. ``held``: in the tree, locked by someone. ``evictable``: in the tree.
    """

    turn: int
    filled: int
    empty: int
    held: int
    evictable: int
    free: int

    @property
    def total(self) -> int:
        return self.filled + self.empty + self.held + self.evictable + self.free

    @property
    def utilisation(self) -> float:
        """The share of the pool that holds K/V."""
        return (self.filled + self.held + self.evictable) / self.total

    @property
    def fragmentation(self) -> float:
        """The share of the slots that requests keep from others, but which hold nothing."""
        taken = self.filled + self.empty + self.held
        return self.empty / taken if taken else 0.0


class Hit(NamedTuple):
    """How much of a request's prompt was in the cache when it was admitted."""

    uid: int
    turn: int
    matched: int
    prompt: int


def pool_use(trace: Trace) -> list[PoolUse]:
    """One entry per step that ran, in order."""
    replay = trace.replay()
    stored = [i for i, frame in enumerate(trace.frames) if frame.get("stored")]
    return [_use(replay.state_at(i)) for i in stored]


def _use(state: State) -> PoolUse:
    owned = [(slot, req) for req in state.live() for slot in state.owned(req)]
    with_kv = {slot for req in state.live() for slot in state.row(req)[: req.cached_len]}
    filled = {slot for slot, _ in owned if slot in with_kv}
    nodes = [node for node in state.tree.values() if node.parent is not None]
    held = sum(len(node.value) for node in nodes if node.ref_count)
    evictable = sum(len(node.value) for node in nodes if not node.ref_count)
    return PoolUse(
        turn=state.frame["turn"],
        filled=len(filled),
        empty=len({slot for slot, _ in owned} - filled),
        held=held,
        evictable=evictable,
        free=len(state.free) * state.page_size,
    )


def hits(trace: Trace) -> list[Hit]:
    """One entry per request that was admitted, in that order; later chunks are not hits."""
    return list(_hits(trace))


def _hits(trace: Trace) -> Iterator[Hit]:
    prompts: dict[int, int] = {}
    for frame in trace.frames:
        for uid, req in frame.get("reqs", {}).items():
            if req.get("state") == "waiting":
                prompts[int(uid)] = req["input_len"]
        for entry in frame.get("admit", ()):
            uid = entry["uid"]
            if uid in prompts:
                yield Hit(uid, frame["turn"], entry["matched"], prompts.pop(uid))


def hit_rate(trace: Trace) -> float:
    """The share of all prompt tokens that was found in the cache; 0 when there were none."""
    found = hits(trace)
    prompt = sum(hit.prompt for hit in found)
    return sum(hit.matched for hit in found) / prompt if prompt else 0.0
