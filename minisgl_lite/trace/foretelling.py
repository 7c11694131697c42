"""What a frame should look like, given the state before it and a few numbers.

Packing (``packing.py``) leaves out what is foretold here. Nothing stands on it being right: where a
run goes another way, the difference is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .events import PHASES
from .replay import ReqState, State
from .runs import to_runs

Frame = dict[str, Any]

TURN_CODE = len(PHASES)  # added to the code of a turn's first frame
WALK, LOCK, UNLOCK, ADD, SPLIT, DEL = range(6)
_DEVICE = ("forward",)


class Foretelling:
    """What a frame should look like, given the state before it. Packing and unpacking share it."""

    def __init__(self, meta: dict[str, Any]) -> None:
        self.meta = meta
        self.state = State(meta)
        self.turn = 0
        self.sub = 0
        self.rank = 0
        self.clock = 0
        self.next_node = 1
        self.next_batch = 0
        self.running: list[int] = []  # uids that decode next
        self.admitted: list[int] = []  # uids of the prefill batch that is being made
        self.launched: dict[
            int, tuple[list[int], set[int]]
        ] = {}  # batch -> uids, chunks among them
        self.sampled: int | None = None  # the batch whose results are read

    # ---- a frame, from its packed form ----------------------------------------------------------
    def frame(self, packed: list[Any]) -> Frame:
        """The whole frame; ``packed`` without the differences at its end."""
        code, *rest = packed
        phase = PHASES[code % TURN_CODE]
        first = code >= TURN_CODE
        turn, sub = (self.turn + 1, 0) if first else (self.turn, self.sub)
        if first:
            self.admitted = []
        frame: Frame = {
            "turn": turn,
            "sub": sub,
            "phase": phase,
            "lane": "device" if phase in _DEVICE else "host",
            "batch": self._batch(phase),
            "rank": self.rank,
        }
        parts: dict[str, Any] = getattr(self, f"_{phase}")(*rest)
        return frame | {name: part for name, part in parts.items() if part not in ({}, [], None)}

    def _batch(self, phase: str) -> int | None:
        if phase in ("receive", "abort"):
            return None
        if phase == "forward":
            return self.next_batch - 1
        if phase == "sample":
            return min(self.launched, default=None)
        return self.sampled if phase == "release" else self.next_batch

    def _receive(self, *entries: list[Any]) -> Frame:
        return {"reqs": {str(uid): self._new(ids, room) for uid, ids, room in entries}}

    @staticmethod
    def _new(ids: list[int], room: int) -> dict[str, Any]:
        return {
            "state": "waiting",
            "row": None,
            "cached_len": 0,
            "device_len": len(ids),
            "input_len": len(ids),
            "max_device_len": len(ids) + room,
            "handle_len": 0,
            "node": None,
            "shown": 0,
            "reason": None,
            "ids": ids,
        }

    def _abort(self, uids: list[int], tree: list[int], *entries: list[Any]) -> Frame:
        parts = self._release(tree, *entries)
        for uid in uids:
            parts["reqs"].setdefault(str(uid), {})["state"] = "aborted"
        return parts

    def _admit(self, tree: list[int], *entries: list[Any]) -> Frame:
        ops, after = self.unpack_tree(tree, [])
        parts: Frame = {"tree": ops, "admit": [], "table": [], "reqs": {}}
        for uid, row, matched, end, node in entries:
            req, chunk = self.state.reqs[uid], bool(end)
            new = req.row is None
            parts["admit"].append({"uid": uid, "row": row, "matched": matched, "chunk": chunk})
            if matched:
                parts["table"].append([row, 0, to_runs(_path_slots(after, node)[:matched])])
            fields = {
                "state": "chunk" if chunk else "prefill",
                "row": row,
                "cached_len": matched if new else req.cached_len,
                "device_len": end or req.input_len,
                "handle_len": matched if new else req.handle_len,
                "node": node if new else req.node,
            }
            _note(parts, req, fields)
        return parts

    def _evict(self, tree: list[int]) -> Frame:
        ops, _ = self.unpack_tree(tree, [])
        size = self.state.page_size
        pages = [slot for op in ops for slot in self.state.tree[op[1]].value[::size]]
        return {"tree": ops, "free": {"put": pages}}

    def _allocate(self) -> Frame:
        state, size = self.state, self.state.page_size
        parts: Frame = {"alloc": [], "table": []}
        taken = iter(state.free)
        for uid in self.admitted or self.running:
            req = state.reqs[uid]
            first, last = -(-req.cached_len // size), -(-req.device_len // size)
            if last > first:
                pages = [next(taken) for _ in range(first, last)]
                slots = [page + i for page in pages for i in range(size)]
                parts["alloc"].append([uid, first, last, pages])
                parts["table"].append([req.row, first * size, to_runs(slots)])
        parts["free"] = {"take": sum(last - first for _, first, last, _ in parts["alloc"])}
        return parts

    def _prepare(self, padding: int) -> Frame:
        uids = self.admitted or self.running
        reqs = [self.state.reqs[uid] for uid in uids]
        slots: list[int] = []
        for req in reqs:
            assert req.row is not None
            slots += self.state.table[req.row][req.cached_len : req.device_len]
        slots += [self.state.num_pages * self.state.page_size] * padding
        parts: Frame = {"reqs": {}}
        parts["batch_info"] = {
            "phase": "prefill" if self.admitted else "decode",
            "uids": uids + [-1] * padding,
            "ext": [req.extend_len for req in reqs] + [1] * padding,
            "cached": [req.cached_len for req in reqs] + [0] * padding,
            "write": [[req.row, -1 if req.state == "chunk" else req.device_len] for req in reqs],
            "out_loc": to_runs(slots),
        }
        # NOTE: before the step a decoding request always has room for one more token.
        for req in reqs if not self.admitted else []:
            _note(parts, req, {"state": "decode"})
        return parts

    def _forward(self) -> Frame:
        parts: Frame = {"stored": True, "reqs": {}}
        for uid in self.launched[self.next_batch - 1][0]:
            req = self.state.reqs[uid]
            lens = {"cached_len": req.device_len, "device_len": req.device_len + 1}
            _note(parts, req, lens)
        return parts

    def _sample(self, *tokens: int) -> Frame:
        uids, chunks = self.launched[min(self.launched)]
        parts: Frame = {"tokens": [], "reqs": {}}
        for uid, token in zip(uids, tokens, strict=True):
            req = self.state.reqs[uid]
            if uid in chunks or req.row is None or req.state == "aborted":
                parts["tokens"].append([uid, token, False, False, None])
                continue
            full = len(req.ids) + 1 == req.max_device_len
            reason = "stop" if token in self.meta["eos"] else "length" if full else None
            parts["tokens"].append([uid, token, True, reason is not None, reason])
            parts["reqs"][str(uid)] = {"ids": [token]}
            _note(parts, req, {"shown": req.shown + 1, "reason": reason})
        return parts

    def _release(self, tree: list[int], *entries: list[Any]) -> Frame:
        state, size = self.state, self.state.page_size
        ops, after = self.unpack_tree(tree, entries)
        parts: Frame = {"tree": ops, "release": [], "table": [], "reqs": {}, "free": {"put": []}}
        for uid, finished, dup_end, new_len, node in entries:
            req = state.reqs[uid]
            assert req.row is not None
            end = -(-req.cached_len // size) * size
            slots = state.table[req.row][:end]
            remapped = None
            if dup_end > req.handle_len and not finished:
                remapped = to_runs(_path_slots(after, node)[req.handle_len : dup_end])
                parts["table"].append([req.row, req.handle_len, remapped])
            borders = [0, req.handle_len, dup_end, new_len, end]
            entry = {"uid": uid, "finished": bool(finished), "remapped": remapped}
            entry["ranges"] = ranges_of(borders, bool(finished), slots)
            parts["release"].append(entry)
            parts["free"]["put"] += slots[req.handle_len : dup_end : size]
            if finished:
                parts["free"]["put"] += slots[new_len:end:size]
                fields: dict[str, Any] = {"row": None, "handle_len": 0, "node": None}
                fields["state"] = req.state if req.state == "aborted" else "done"
            else:
                fields = {"state": "decode", "handle_len": new_len, "node": node}
            _note(parts, req, fields)
        if not parts["free"]["put"]:
            del parts["free"]
        return parts

    # ---- the tree's operations as a flat list of numbers ---------------------------------------
    def unpack_tree(self, flat: list[int], entries: Sequence[Any]) -> tuple[list[list[Any]], State]:
        """The operations, and the state after them.

        A node that is added holds what one of the released requests registered, ``entries``.
        """
        after = self.state.snapshot()
        clock, next_node = self.clock, self.next_node
        ops: list[list[Any]] = []
        numbers = iter(flat)
        for kind in numbers:
            if kind == WALK:
                node, clock = next(numbers), clock + next(numbers)
                new = [["time", n, clock] for n in reversed(path_of(after, node))]
            elif kind in (LOCK, UNLOCK):
                step = 1 if kind == LOCK else -1
                path = path_of(after, next(numbers))
                new = [["ref", n, after.tree[n].ref_count + step] for n in path]
            elif kind == ADD:
                parent, at, tick = next(numbers), next(numbers), next(numbers)
                clock += tick
                key, slots = self.registered(entries[at])
                new = [["add", next_node, parent, key, to_runs(slots), clock]]
                next_node += 1
            elif kind == SPLIT:
                lower, length = next(numbers), next(numbers)
                new = [["split", next_node, lower, length, after.tree[lower].time]]
                next_node += 1
            else:
                new = [["del", next(numbers)]]
            for op in new:
                after.apply_tree(op)
            ops += new
        return ops, after

    def registered(self, entry: list[Any]) -> tuple[list[int], list[int]]:
        """Tokens and slots that a released request added to the tree."""
        uid, _, dup_end, new_len, _ = entry
        req = self.state.reqs[uid]
        assert req.row is not None
        return req.ids[dup_end:new_len], self.state.table[req.row][dup_end:new_len]

    # ---- after a frame ---------------------------------------------------------------------------
    def advance(self, frame: Frame) -> None:
        """Take the true frame into the state."""
        self.turn, self.sub, self.rank = frame["turn"], frame["sub"] + 1, frame["rank"]
        if frame["sub"] == 0:
            self.admitted = []
        if frame["phase"] == "admit":
            self.admitted = [entry["uid"] for entry in frame.get("admit", ())]
        self.state.apply(frame)
        for op in frame.get("tree", ()):
            if op[0] in ("time", "add"):
                self.clock = max(self.clock, op[-1])
            if op[0] in ("add", "split"):
                self.next_node = max(self.next_node, op[1] + 1)
        if "batch_info" in frame:
            self._advance_batch(frame)
        if frame["phase"] == "forward":
            self._advance_running(self.launched[frame["batch"]][0])
        if frame["phase"] == "sample":
            self.sampled = frame["batch"]
            self.launched.pop(frame["batch"], None)
        over = ("done", "aborted")
        self.running = [uid for uid in self.running if self.state.reqs[uid].state not in over]

    def _advance_batch(self, frame: Frame) -> None:
        uids = [uid for uid in frame["batch_info"]["uids"] if uid >= 0]
        chunks = {uid for uid in uids if self.state.reqs[uid].state == "chunk"}
        self.launched[frame["batch"]] = (uids, chunks)
        self.next_batch = frame["batch"] + 1

    def _advance_running(self, uids: list[int]) -> None:
        reqs = [self.state.reqs[uid] for uid in dict.fromkeys(self.running + uids)]
        self.running = [
            req.uid for req in reqs if req.state != "chunk" and req.device_len < req.max_device_len
        ]


def ranges_of(borders: Sequence[int], finished: bool, slots: Sequence[int]) -> list[list[Any]]:
    """The ranges of a release that are not empty, with their slots."""
    kinds = ("matched", "duplicate", "registered", "tail" if finished else "kept")
    return [
        [kind, start, end, to_runs(slots[start:end])]
        for kind, start, end in zip(kinds, borders[:-1], borders[1:], strict=True)
        if end > start
    ]


def _note(parts: Frame, req: ReqState, fields: dict[str, Any]) -> None:
    """Write the fields that differ from the request's into the frame's ``reqs``."""
    changed = {name: value for name, value in fields.items() if getattr(req, name) != value}
    if changed:
        parts["reqs"].setdefault(str(req.uid), {}).update(changed)


def path_of(state: State, node: int) -> list[int]:
    """The node and its ancestors, without the root."""
    path: list[int] = []
    while node != 0:
        path.append(node)
        parent = state.tree[node].parent
        assert parent is not None
        node = parent
    return path


def _path_slots(state: State, node: int | None) -> list[int]:
    return [slot for n in reversed(path_of(state, node or 0)) for slot in state.tree[n].value]
