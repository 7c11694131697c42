"""Watches a scheduler through its hooks and writes down what changed, one frame per phase.

The recorder holds no copy of the scheduler's logic: each frame is what a hook was told, as plain
data. It is called after the sanitizer and the exercise harness, so what the sanitizer found in a
step stands in that step's frames.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..distributed.info import SINGLE
from ..hooks import ORDER_RECORDER, Listener, Release
from .describe import TokenBytes, Vocab, meta_of, node_of, snapshot_of, token_bytes_of
from .events import PHASES
from .foretelling import ranges_of
from .runs import to_runs
from .trace import Frame, Trace

if TYPE_CHECKING:
    from ..core import Batch, Req
    from ..kvcache import BaseCacheHandle
    from ..kvcache.radix_cache import RadixTreeNode
    from ..scheduler.scheduler import ForwardInput, Scheduler
    from ..scheduler.utils import PendingReq
    from .sanitizer import KVSanitizer

# Phases of one group share their frames until the group ends; messages keep their order instead.
_GROUP = {
    "admit": 1,
    "evict": 2,
    "allocate": 2,
    "prepare": 3,
    "forward": 4,
    "sample": 5,
    "release": 5,
}
_RANK = {phase: i for i, phase in enumerate(PHASES)}


class Recorder(Listener):
    """Records one scheduler.

    ``vocab`` gives the bytes of a token id: a function, or a mapping (as for scripted engines); by
    default the scheduler's tokenizer is asked, and with none the ids stand alone. ``wall``: also
    note the time of each frame. ``sanitizer``: its findings become ``fault`` entries. A recorder
    that is attached to an engine in use begins with a frame that tells what is there.
    """

    def __init__(
        self,
        scheduler: Scheduler | None = None,
        *,
        vocab: Vocab | TokenBytes | None = None,
        model: str | None = None,
        mode: str | None = None,
        wall: bool = False,
        sanitizer: KVSanitizer | None = None,
    ) -> None:
        self.sanitizer = sanitizer
        self._wanted_wall = wall
        self._given_vocab, self._given = vocab, {"model": model, "mode": mode}
        self._scheduler: Scheduler | None = None
        self._clear()
        if scheduler is not None:
            self.attach(scheduler)

    def _clear(self) -> None:
        self.meta: dict[str, Any] = {}
        self.vocab: dict[int, bytes] = {}
        self.frames: list[Frame] = []
        self.wall: list[float] | None = [] if self._wanted_wall else None
        self._taken = 0
        self._words_taken = 0
        self._faults_seen = 0 if self.sanitizer is None else len(self.sanitizer.faults)
        self._known: dict[int, dict[str, Any]] = {}
        self._live: dict[int, Req] = {}
        self._in_flight = 0
        self._begin_turn(0)

    # ---- use ---------------------------------------------------------------------------------
    def attach(self, scheduler: Scheduler) -> Recorder:
        """Begin a new recording, of ``scheduler``.

        Raises ValueError when the engine is closed, or this recorder has a scheduler already.
        """
        if self._scheduler is not None:
            raise ValueError("this recorder records a scheduler already; make one for each engine")
        if getattr(scheduler, "closed", False):
            raise ValueError("this engine is closed; there is nothing to record")
        self._clear()
        self.meta = meta_of(scheduler, **self._given)
        self._bytes_of = token_bytes_of(scheduler, self._given_vocab)
        self._scheduler = scheduler
        ctx = getattr(scheduler.engine, "ctx", None)
        self._rank = getattr(ctx, "tp_info", SINGLE).rank
        self._start = time.perf_counter()
        if present := snapshot_of(scheduler):
            self._begin_turn(scheduler.turn)
            self._live = {req.uid: req for req in scheduler.live_reqs()}
            self._take_over(present)
        scheduler.hooks.attach(self, order=ORDER_RECORDER)
        return self

    def detach(self) -> None:
        """Stop recording; the frames stay until the recorder is attached again."""
        if self._scheduler is not None:
            self._flush()
            self._scheduler.hooks.detach(self)
            self._scheduler = None

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.detach()

    def take(self) -> tuple[list[Frame], dict[int, bytes]]:
        """The frames, and the tokens that were new in them, since the last call."""
        frames = self.frames[self._taken :]
        words = dict(list(self.vocab.items())[self._words_taken :])
        self._taken, self._words_taken = len(self.frames), len(self.vocab)
        return frames, words

    def trace(self) -> Trace:
        """All that was recorded up to the last complete phase."""
        wall = None if self.wall is None else list(self.wall)
        return Trace(dict(self.meta), list(self.frames), dict(self.vocab), wall)

    # ---- frames ------------------------------------------------------------------------------
    def _begin_turn(self, turn: int) -> None:
        self._turn, self._sub = turn, 0
        self._open: dict[str, Frame] = {}
        self._group: int | str | None = None
        self._messages = True
        self._batch: int | None = None
        self._tree: list[list[Any]] = []
        self._unnumbered: list[Frame] = []  # of the batch that is being made
        self._granted: dict[int, tuple[int, int]] = {}

    def _frame(self, phase: str, *, lane: str = "host", batch: int | None = None) -> Frame:
        """The open frame of ``phase``; what the tree did since the last event belongs to it."""
        group = _GROUP.get(phase, phase)
        if group != self._group:
            self._flush()
            self._group = group
        if phase not in self._open:
            self._open[phase] = {
                "turn": self._turn,
                "sub": 0,
                "phase": phase,
                "lane": lane,
                "batch": batch,
                "rank": self._rank,
            }
        frame = self._open[phase]
        if self._tree:
            frame.setdefault("tree", []).extend(self._tree)
            self._tree = []
        self._note_fault(frame)
        return frame

    def _flush(self) -> None:
        """Close the open frames, in the order of their phases."""
        for phase in sorted(self._open, key=_RANK.__getitem__):
            frame = self._open[phase]
            frame["sub"] = self._sub
            self._sub += 1
            self.frames.append(frame)
            if phase in ("admit", "evict", "allocate"):
                self._unnumbered.append(frame)
            if self.wall is not None:
                self.wall.append(round(time.perf_counter() - self._start, 6))
        self._open, self._group = {}, None

    def _note_fault(self, frame: Frame) -> None:
        if self.sanitizer is not None and len(self.sanitizer.faults) > self._faults_seen:
            found = [fault.as_dict() for fault in self.sanitizer.faults[self._faults_seen :]]
            self._faults_seen += len(found)
            if "fault" not in frame:
                frame["fault"] = found.pop(0)
            if found:
                frame.setdefault("more_faults", []).extend(found)

    def _set(self, frame: Frame, uid: int, **fields: Any) -> None:
        """Note the fields of a request that changed."""
        known = self._known.setdefault(uid, {})
        changed = {k: v for k, v in fields.items() if k not in known or known[k] != v}
        if changed:
            known.update(changed)
            frame.setdefault("reqs", {}).setdefault(str(uid), {}).update(changed)

    def _add_ids(self, frame: Frame, uid: int, ids: list[int]) -> None:
        frame.setdefault("reqs", {}).setdefault(str(uid), {}).setdefault("ids", []).extend(ids)
        self._note_bytes(ids)

    def _note_bytes(self, ids: list[int]) -> None:
        for token in ids:
            if token not in self.vocab:
                text = self._bytes_of(token)
                if text is not None:
                    self.vocab[token] = text

    def _take_over(self, present: dict[str, Any]) -> None:
        """Tell what an engine held before it was recorded, as if it came in now."""
        frame = self._frame("receive")
        for uid, fields in present.pop("reqs").items():
            ids = fields.pop("ids")
            self._set(frame, uid, **fields)
            self._add_ids(frame, uid, ids)
        frame.update(present)
        for operation, *what in present.get("tree", ()):
            if operation == "add":  # id, parent, token ids, …
                self._note_bytes(what[2])
        self._flush()

    # ---- turns and messages ----------------------------------------------------------------------
    def on_turn_begin(self, turn: int) -> None:
        self._flush()
        self._begin_turn(turn)

    def on_turn_end(self, turn: int) -> None:
        self._flush()

    def on_receive(self, pending: PendingReq) -> None:
        frame = self._frame("receive")
        input_len = pending.input_len
        self._known.pop(pending.uid, None)
        self._set(
            frame,
            pending.uid,
            state="waiting",
            row=None,
            cached_len=0,
            device_len=input_len,
            input_len=input_len,
            max_device_len=input_len + pending.output_len,
            handle_len=0,
            node=None,
            shown=0,
            reason=None,
        )
        self._add_ids(frame, pending.uid, pending.input_ids.tolist())

    def on_reject(self, uid: int, reason: str) -> None:
        frame = self._frame("receive")
        frame.setdefault("reject", []).append({"uid": uid, "reason": reason})
        if self._known.get(uid, {}).get("state") in (None, "done", "aborted", "rejected"):
            self._set(frame, uid, state="rejected", reason=reason)

    def on_abort(self, uid: int, req: Req | None) -> None:
        self._set(self._frame("abort"), uid, state="aborted")

    # ---- admission ------------------------------------------------------------------------------
    def on_match(self, pending: PendingReq, handle: BaseCacheHandle) -> None:
        self._messages = False
        self._frame("admit")

    def on_refuse(
        self, pending: PendingReq, need: int, reserved: int, available: int, why: str
    ) -> None:
        self._messages = False
        self._frame("admit")["refuse"] = {
            "uid": pending.uid,
            "need": need,
            "reserved": reserved,
            "available": available,
            "why": why,
        }

    def on_admit(self, req: Req, pending: PendingReq, matched_slots: list[int] | None) -> None:
        self._messages = False
        frame = self._frame("admit")
        chunk = len(req.input_ids) < pending.input_len
        entry = {
            "uid": req.uid,
            "row": req.table_idx,
            "matched": len(matched_slots or ()),
            "chunk": chunk,
        }
        frame.setdefault("admit", []).append(entry)
        if matched_slots:
            frame.setdefault("table", []).append([req.table_idx, 0, to_runs(matched_slots)])
        self._live[req.uid] = req
        self._set(
            frame,
            req.uid,
            state="chunk" if chunk else "prefill",
            row=req.table_idx,
            cached_len=req.cached_len,
            device_len=req.device_len,
            handle_len=req.cache_handle.cached_len,
            node=node_of(req.cache_handle),
        )

    # ---- the tree: noted now, written into the frame of the event that caused it ----------------
    def on_walk(self, touched: list[RadixTreeNode], tick: int) -> None:
        self._tree.extend(["time", node.uuid, tick] for node in touched)

    def on_node_add(self, node: RadixTreeNode) -> None:
        key, slots = node._key.tolist(), to_runs(node.value.tolist())
        self._tree.append(["add", node.uuid, node.parent.uuid, key, slots, node.timestamp])

    def on_node_split(self, upper: RadixTreeNode, lower: RadixTreeNode) -> None:
        self._tree.append(["split", upper.uuid, lower.uuid, upper.length, upper.timestamp])

    def on_node_evict(self, node: RadixTreeNode) -> None:
        self._tree.append(["del", node.uuid])

    def on_lock(self, handle: BaseCacheHandle) -> None:
        self._tree.extend(["ref", node.uuid, node.ref_count] for node in _path(handle))

    def on_unlock(self, handle: BaseCacheHandle) -> None:
        self.on_lock(handle)

    # ---- pages ---------------------------------------------------------------------------------
    def on_evict(self, page_starts: list[int]) -> None:
        self._put(self._frame("evict"), page_starts)

    def on_free(self, page_starts: list[int]) -> None:
        # The release they come from was told just before, and its frame is still open.
        phase = next(reversed(self._open), "release")
        frame = self._frame("release" if phase == "sample" else phase)
        self._put(frame, page_starts)
        # A step that failed gives back what it was granted: its requests' pages end earlier again.
        for page in page_starts:
            if (granted := self._granted.pop(page, None)) is not None:
                uid, number = granted
                frame.setdefault("alloc", []).append([uid, number, number, []])

    def on_free_slots_set(self, before: int, page_starts: list[int]) -> None:
        """All that the queue held is taken, and the new one put: no other entry is needed."""
        opened = max(self._open, key=_RANK.__getitem__, default="")
        phase = {"": "receive", "sample": "release"}.get(opened, opened)
        frame = self._frame(phase, batch=self._batch if phase == "release" else None)
        free = frame.get("free", {})
        whole = before + free.get("take", 0) - len(free.get("put", ()))
        frame["free"] = {"take": whole, "put": page_starts}
        if not opened:
            self._flush()

    def _put(self, frame: Frame, page_starts: list[int]) -> None:
        frame.setdefault("free", {}).setdefault("put", []).extend(page_starts)

    def on_allocate(self, spans: list[tuple[Req, int, int]], page_starts: list[int]) -> None:
        frame = self._frame("allocate")
        frame["free"] = {"take": len(page_starts)}
        size, taken = self.meta["page_size"], iter(page_starts)
        for req, first, last in spans:
            pages = [next(taken) for _ in range(first, last)]
            self._granted |= {page: (req.uid, n) for n, page in enumerate(pages, start=first)}
            slots = [page + i for page in pages for i in range(size)]
            frame.setdefault("alloc", []).append([req.uid, first, last, pages])
            frame.setdefault("table", []).append([req.table_idx, first * size, to_runs(slots)])

    # ---- the step ------------------------------------------------------------------------------
    def on_prepare(self, forward_input: ForwardInput) -> None:
        self._messages = False
        batch = forward_input.batch
        frame = self._frame("prepare", batch=batch.batch_id)
        for earlier in self._unnumbered:
            earlier["batch"] = batch.batch_id
        frame["batch_info"] = {
            "phase": batch.phase,
            "uids": [req.uid for req in batch.padded_reqs],
            "ext": [req.extend_len for req in batch.padded_reqs],
            "cached": [req.cached_len for req in batch.padded_reqs],
            "write": [list(cell) for cell in zip(*_lists(forward_input.write_tuple), strict=True)],
            "out_loc": to_runs(batch.out_loc.tolist()),
        }
        if batch.is_decode:
            for req in batch.reqs:
                self._set(frame, req.uid, state="decode")

    def on_forward_done(self, batch: Batch, batch_id: int) -> None:
        self._granted = {}
        self._in_flight += 1
        if self._in_flight > 1:  # launched before the last one's results were read
            self.meta["loop"] = "overlap"
        frame = self._frame("forward", lane="device", batch=batch_id)
        frame["stored"] = True
        for req in batch.reqs:
            if self._live.get(req.uid) is req:
                self._set(frame, req.uid, cached_len=req.cached_len, device_len=req.device_len)

    def on_result(self, batch: Batch, batch_id: int, next_tokens: list[int]) -> None:
        self._messages, self._batch = False, batch_id
        self._in_flight = max(0, self._in_flight - 1)
        frame = self._frame("sample", batch=batch_id)
        self._results = list(batch.reqs)
        frame["tokens"] = [
            [req.uid, token, False, False, None]
            for req, token in zip(batch.reqs, next_tokens, strict=True)
        ]

    def on_token(self, req: Req, token: int, finished: bool, reason: str | None) -> None:
        frame = self._frame("sample", batch=self._batch)
        at = next(i for i, other in enumerate(self._results) if other is req)
        frame["tokens"][at] = [req.uid, token, True, finished, reason]
        self._add_ids(frame, req.uid, [token])
        self._set(frame, req.uid, shown=self._known[req.uid]["shown"] + 1, reason=reason)

    # ---- release -------------------------------------------------------------------------------
    def _end(self, uid: int) -> dict[str, str]:
        """How a request ended that is released for good."""
        if self._known[uid]["reason"] is not None:
            return {"state": "done"}
        if self._known[uid]["state"] == "aborted":
            return {}
        return {"state": "aborted", "reason": "error: the step failed"}

    def on_release(self, release: Release) -> None:
        req = release.req
        phase = "abort" if self._messages else "release"
        frame = self._frame(phase, batch=None if self._messages else self._batch)
        borders = [0, release.old_len, release.dup_end, release.new_len, release.end]
        frame.setdefault("release", []).append(
            {
                "uid": req.uid,
                "finished": release.finished,
                "ranges": ranges_of(borders, release.finished, release.slots),
                "remapped": None if release.remapped is None else to_runs(release.remapped),
            }
        )
        if release.remapped:
            cells = [req.table_idx, release.old_len, to_runs(release.remapped)]
            frame.setdefault("table", []).append(cells)
        if release.finished:
            self._live.pop(req.uid, None)
            self._set(frame, req.uid, row=None, handle_len=0, node=None, **self._end(req.uid))
        else:
            handle = release.handle
            self._set(
                frame,
                req.uid,
                state="decode",
                handle_len=handle.cached_len,
                node=node_of(handle),
            )


def _lists(pair: tuple[Any, Any]) -> tuple[list[int], list[int]]:
    return pair[0].tolist(), pair[1].tolist()


def _path(handle: BaseCacheHandle) -> Iterator[RadixTreeNode]:
    node = getattr(handle, "node", None)
    while node is not None and not node.is_root():
        yield node
        node = node.parent
