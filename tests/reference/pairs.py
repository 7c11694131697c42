"""Two schedulers side by side on one stream: the first thing that differs at the end of a turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from helpers.world import World

from minisgl_lite.engine.scripted import ScriptedEngine
from minisgl_lite.hooks import Listener, Release
from tests.reference.streams import Stream, script_of
from tests.teaching.sides import WatchingEngine, make_side

MOST_TURNS = 3000


class Difference(NamedTuple):
    """``what`` differs at the end of ``turn``: ``ours`` and ``theirs``."""

    seed: int
    turn: int
    what: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        where, ours, theirs = _narrow(self.ours, self.theirs)
        return (
            f"seed {self.seed}, turn {self.turn}: {self.what} differ{where}\n"
            f"  ours:   {ours}\n  theirs: {theirs}"
        )


def _narrow(ours: Any, theirs: Any, where: str = "") -> tuple[str, Any, Any]:
    """The innermost part of two nested values that differs, and where it stands in them."""
    pairs: list[tuple[Any, Any, Any]] = []
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        pairs = [(key, ours[key], theirs[key]) for key in ours]
    elif isinstance(ours, (list, tuple)) and len(ours) == len(theirs):
        pairs = [(i, a, b) for i, (a, b) in enumerate(zip(ours, theirs, strict=True))]
    for key, a, b in pairs:
        if a != b:
            return _narrow(a, b, f"{where}[{key}]")
    return where, ours, theirs


class Outcome(NamedTuple):
    """How the comparison of one stream ended."""

    difference: Difference | None
    turns: int
    raised: bool
    """Both sides raised in the same turn; the stream ends there."""
    refused: bool
    """A request had to wait for want of pages, on either side, before the end."""
    pointed_anew: bool
    """A row differed only where ours points at the cached copy of a duplicate."""


class Side:
    """One scheduler of a pair and what its last turn did."""

    def __init__(
        self, side: str, stream: Stream, engine: type[ScriptedEngine] = WatchingEngine
    ) -> None:
        self.world: World = make_side(
            side,
            stream.num_pages,
            stream.page_size,
            loop=stream.loop,
            cache=stream.cache,
            rows=stream.rows,
            budget=stream.budget,
            eos=stream.eos,
            graph_bs=stream.graph_bs,
            script=script_of(stream),
            engine=engine,
        )
        self.stream = stream
        self.batches: list[dict[str, Any]] = []
        self.refused = False
        self._said = 0
        self._note_batches()
        self._note_refusals()
        self._sort_decode_batches()

    def feed(self, turn: int) -> None:
        """Put in what the stream has for this turn."""
        for when, uid, prompt, max_tokens, ignore_eos in self.stream.arrivals:
            if when == turn:
                self.world.add(uid, prompt, max_tokens, ignore_eos=ignore_eos)
        for when, uid in self.stream.aborts:
            if when == turn:
                self.world.abort(uid)

    def turn(self) -> bool:
        """One turn; False if it raised one of the errors that end a published scheduler."""
        self.batches.clear()
        try:
            self.world.step()
        except (AssertionError, RuntimeError):
            return False
        return True

    @property
    def table(self) -> torch.Tensor:
        return self.world.engine.page_table

    def state(self) -> Iterator[tuple[str, Any]]:
        """All that must be equal but page table and times of use; the telling things first."""
        scheduler = self.world.scheduler
        manager = scheduler.cache_manager
        yield "the batch and its places", list(self.batches)
        yield "the ids fed to the model", self._new_ids()
        yield "replies", self._new_replies()
        yield "free_slots", manager.free_slots.tolist()
        yield "available_size", manager.available_size
        yield "evictable and protected", tuple(manager.prefix_cache.size_info)
        yield "free table rows", list(scheduler.table_manager._free_slots)
        yield "running requests", sorted(_req(r) for r in scheduler.decode_manager.running_reqs)
        yield "waiting requests", [_pending(p) for p in scheduler.prefill_manager.pending_list]
        yield "token_pool", scheduler.table_manager.token_pool.tolist()
        yield "the tree", [node[:-1] for node in self.tree()]

    def tree(self) -> list[tuple[Any, ...]]:
        """(path of ids, slots, ref_count, time) of every node, in order of path."""
        root = getattr(self.world.cache.prefix_cache, "root_node", None)
        found: list[tuple[Any, ...]] = []
        stack = [] if root is None else [(child, ()) for child in root.children.values()]
        while stack:
            node, before = stack.pop()
            path = (*before, *node._key.tolist())
            found.append((path, node.value.tolist(), node.ref_count, node.timestamp))
            stack.extend((child, path) for child in node.children.values())
        return sorted(found)

    def _new_ids(self) -> list[tuple[int, int]]:
        """(uid, id) of every token that the model was given since the last call, in order."""
        fed, self.world.engine.fed_in_order = self.world.engine.fed_in_order, []
        return fed

    def _new_replies(self) -> list[tuple[int, int, bool]]:
        replies = self.world.replies[self._said :]
        self._said += len(replies)
        return replies

    def _note_batches(self) -> None:
        launch = self.world.engine.forward_batch

        def forward_batch(batch: Any, args: Any) -> Any:
            self.batches.append(
                {
                    "phase": batch.phase,
                    "uids": [req.uid for req in batch.padded_reqs],
                    "rows": [req.table_idx for req in batch.padded_reqs],
                    "cached": [req.cached_len for req in batch.padded_reqs],
                    "positions": batch.positions.tolist(),
                    "out_loc": batch.out_loc.tolist(),
                }
            )
            return launch(batch, args)

        self.world.engine.forward_batch = forward_batch

    def _note_refusals(self) -> None:
        """Whoever waits with budget and a row left was refused for want of pages."""
        manager = self.world.scheduler.prefill_manager
        schedule = manager.schedule_next_batch

        def schedule_next_batch(prefill_budget: int) -> Any:
            batch = schedule(prefill_budget)
            used = sum(req.extend_len for req in batch.reqs) if batch else 0
            rows = self.world.scheduler.table_manager.available_size
            if manager.pending_list and used < prefill_budget and rows > 0:
                self.refused = True
            return batch

        manager.schedule_next_batch = schedule_next_batch

    def _sort_decode_batches(self) -> None:
        """The published order is a set's; sorted by uid on both sides, it can be compared."""
        manager = self.world.scheduler.decode_manager
        schedule = manager.schedule_next_batch

        def schedule_next_batch() -> Any:
            batch = schedule()
            if batch is not None:
                batch.reqs.sort(key=lambda req: req.uid)
            return batch

        manager.schedule_next_batch = schedule_next_batch


def _req(req: Any) -> tuple[int, ...]:
    lengths = (req.cached_len, req.device_len, req.max_device_len, len(req.input_ids))
    return (req.uid, req.table_idx, *lengths, req.cache_handle.cached_len)


def _pending(pending: Any) -> tuple[Any, ...]:
    chunk = pending.chunked_req
    return pending.uid, None if chunk is None else _req(chunk)


class PointedAnew(Listener):
    """The cells of the page table that ours has pointed at cached slots, and theirs has not."""

    def __init__(self) -> None:
        self.cells: set[tuple[int, int]] = set()
        self.seen = False

    def on_release(self, release: Release) -> None:
        if release.remapped is not None:
            row = release.req.table_idx
            self.cells |= {(row, col) for col in range(release.old_len, release.dup_end)}

    def explain(self, ours: torch.Tensor, theirs: torch.Tensor) -> bool:
        """Whether all cells that differ are such; forgets those that have become equal."""
        differ = {(row, col) for row, col in (ours != theirs).nonzero().tolist()}
        explained = differ <= self.cells
        self.cells &= differ
        self.seen |= bool(differ)
        return explained


def compare(stream: Stream, side: str) -> Outcome:
    """Run ``stream`` on ``side`` and on mini-sglang, turn by turn, to the first difference."""
    ours, theirs = Side(side, stream), Side("minisgl", stream)
    stale = side == "all" or "stale-rows" in side
    cold = side == "all" or "cold-partial-hits" in side
    anew = PointedAnew()
    ours.world.scheduler.hooks.attach(anew)

    def outcome(turn: int, what: str = "", a: Any = None, b: Any = None) -> Outcome:
        difference = Difference(stream.seed, turn, what, a, b) if what else None
        refused = ours.refused or theirs.refused
        return Outcome(difference, turn, what == "raised", refused, anew.seen)

    turn = 0
    while turn <= stream.last_turn or ours.world.busy or theirs.world.busy:
        if turn >= MOST_TURNS:
            return outcome(turn, "the end: not at rest", ours.world.busy, theirs.world.busy)
        for each in (ours, theirs):
            each.feed(turn)
        went = ours.turn(), theirs.turn()
        if went == (False, False):
            return outcome(turn)._replace(raised=True)
        if went[0] != went[1]:
            return outcome(turn, "errors", f"raised: {not went[0]}", f"raised: {not went[1]}")
        for (what, a), (_, b) in zip(ours.state(), theirs.state(), strict=True):
            if a != b:
                return outcome(turn, what, a, b)
        if not anew.explain(ours.table, theirs.table) or (stale and anew.seen):
            return outcome(turn, "page_table", ours.table.tolist(), theirs.table.tolist())
        if cold and ours.tree() != theirs.tree():
            return outcome(turn, "times of use", ours.tree(), theirs.tree())
        turn += 1
    return outcome(turn)


ALLOWED = ("cold-partial-hits", "token-wise-admission")
"""What may make ours differ: the partial-hit rule and admission in whole pages."""


class Explained(NamedTuple):
    """The first difference of the corrected engine on a stream, and what it comes from."""

    first: Outcome
    """Without any of ``ALLOWED`` put in."""
    needed: tuple[str, ...]
    """The fewest of ``ALLOWED`` that had to be put in until nothing differed."""
    last: Outcome
    """With these put in; a difference here has no explanation."""


def explain(stream: Stream) -> Explained:
    """Compare the corrected engine; where it differs, put in what may explain it.

    The overlapped loop tells and releases a request a turn earlier as published, so early finish is
    put in from the start there; on a late device row reuse too, since ids are written at another
    time. Rows pointed anew are told apart cell by cell.
    """
    base = {"normal": [], "overlap": ["early-finish"], "late": ["early-finish", "row-reuse"]}
    choices = [(), *((name,) for name in ALLOWED), ALLOWED]
    outcomes = []
    for needed in choices:
        outcomes.append(compare(stream, "+".join([*base[stream.loop], *needed]) or "corrected"))
        if outcomes[-1].difference is None:
            break
    return Explained(outcomes[0], needed, outcomes[-1])
