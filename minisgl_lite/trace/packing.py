"""Frames made small for a page: what the state before a frame foretells is left out.

In most frames nearly everything follows from the state and a few numbers: which slots a step writes
follows from the rows, what a release returns from the tree. A packed frame is those numbers,
``[code, ...]``, and at its end, where the frame is otherwise than foretold, an object with the
entries that differ. So packing loses nothing, whatever happened in the run: what is wrong in a run
with a planted fault simply stands there in full. ``viz/static/unpack.js`` is this file's twin; a
test holds one against the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from .events import PHASES
from .foretelling import ADD, DEL, LOCK, SPLIT, TURN_CODE, UNLOCK, WALK, Foretelling, Frame, path_of
from .runs import from_runs


def pack(meta: dict[str, Any], frames: Sequence[Frame]) -> list[Any]:
    """The frames, packed; ``unpack`` gives back exactly the same."""
    told, packed = Foretelling(meta), []
    for frame in frames:
        packed.append(_pack_frame(told, frame))
        told.advance(frame)
    return packed


def unpack(meta: dict[str, Any], packed: Sequence[Any]) -> list[Frame]:
    """The frames that ``pack`` was given."""
    told, frames = Foretelling(meta), []
    for entry in packed:
        if isinstance(entry, dict):  # a frame that could not be foretold at all
            frame = entry
        elif isinstance(entry[-1], dict):
            frame = told.frame(entry[:-1]) | entry[-1]
            for name in frame.pop("-", ()):
                del frame[name]
        else:
            frame = told.frame(entry)
        frames.append(frame)
        told.advance(frame)
    return frames


def _pack_frame(told: Foretelling, frame: Frame) -> Any:
    code = PHASES.index(frame["phase"]) + (TURN_CODE if frame["sub"] == 0 else 0)
    try:
        packed = [code, *_PACK[frame["phase"]](told, frame)]
        foretold = told.frame(packed)
    except (AssertionError, IndexError, KeyError, StopIteration, TypeError, ValueError):
        return frame
    other = {n: part for n, part in frame.items() if n not in foretold or foretold[n] != part}
    if absent := [name for name in foretold if name not in frame]:
        other["-"] = absent
    return [*packed, other] if other else packed


def _pack_receive(told: Foretelling, frame: Frame) -> Iterator[Any]:
    for uid, req in frame.get("reqs", {}).items():
        if "ids" in req:
            yield [int(uid), req["ids"], req["max_device_len"] - req["input_len"]]


def _pack_abort(told: Foretelling, frame: Frame) -> Iterator[Any]:
    yield [int(uid) for uid in frame["reqs"]]
    yield from _pack_release(told, frame)


def _pack_admit(told: Foretelling, frame: Frame) -> Iterator[Any]:
    yield pack_tree(told, frame.get("tree", []), [])
    for entry in frame.get("admit", ()):
        req = frame.get("reqs", {}).get(str(entry["uid"]), {})
        end = req["device_len"] if entry["chunk"] else 0
        node = req.get("node", told.state.reqs[entry["uid"]].node)
        yield [entry["uid"], entry["row"], entry["matched"], end, node]


def _pack_evict(told: Foretelling, frame: Frame) -> Iterator[Any]:
    yield pack_tree(told, frame["tree"], [])


def _pack_prepare(told: Foretelling, frame: Frame) -> Iterator[Any]:
    yield frame["batch_info"]["uids"].count(-1)


def _pack_sample(told: Foretelling, frame: Frame) -> Iterator[Any]:
    yield from (entry[1] for entry in frame["tokens"])


def _pack_release(told: Foretelling, frame: Frame) -> Iterator[Any]:
    entries = [_pack_entry(told, frame, entry) for entry in frame.get("release", ())]
    yield pack_tree(told, frame.get("tree", []), entries)
    yield from entries


def _pack_entry(told: Foretelling, frame: Frame, entry: dict[str, Any]) -> list[Any]:
    req = told.state.reqs[entry["uid"]]
    ends = {kind: end for kind, _, end, _ in entry["ranges"]}
    dup_end = ends.get("duplicate", req.handle_len)
    new_len = ends.get("registered", dup_end)
    node = frame.get("reqs", {}).get(str(req.uid), {}).get("node", req.node)
    finished = int(entry["finished"])
    return [req.uid, finished, dup_end, new_len, None if finished else node]


def pack_tree(told: Foretelling, ops: list[list[Any]], entries: Sequence[Any]) -> list[int]:
    """Tree operations as a flat list; raises ValueError for what no engine does."""
    flat: list[int] = []
    after, clock = told.state.snapshot(), told.clock
    for (kind, _), group in groupby(ops, key=lambda op: (op[0], op[-1] if op[0] == "time" else 0)):
        rest = list(group)
        while rest:
            if kind == "time":
                node, tick, count = rest[-1][1], rest[-1][2], len(rest)
                flat += [WALK, node, tick - clock]
                clock = tick
            elif kind == "ref":
                path = path_of(after, rest[0][1])
                up = rest[0][2] > after.tree[path[0]].ref_count
                flat += [LOCK if up else UNLOCK, path[0]]
                count = len(path)
            elif kind == "add":
                count = 1
                _, _, parent, key, runs, tick = rest[0]
                at = [told.registered(entry) for entry in entries].index((key, from_runs(runs)))
                flat += [ADD, parent, at, tick - clock]
                clock = tick
            else:
                count = 1
                flat += [SPLIT, *rest[0][2:4]] if kind == "split" else [DEL, rest[0][1]]
            for op in rest[:count]:
                after.apply_tree(op)
            rest = rest[count:]
    return flat


_PACK = {
    "receive": _pack_receive,
    "abort": _pack_abort,
    "admit": _pack_admit,
    "evict": _pack_evict,
    "allocate": lambda told, frame: iter(()),
    "prepare": _pack_prepare,
    "forward": lambda told, frame: iter(()),
    "sample": _pack_sample,
    "release": _pack_release,
}
