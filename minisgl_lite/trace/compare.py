"""The first difference between two traces.

Runs with another page size, policy or loop have other frames, but the same requests: so their
output tokens are compared first, by request and number. Only when all of them agree are the frames
compared, turn by turn: first by what requests can tell of (pages, rows, lengths, batches), then by
the prefix cache's own books, which only one of two caches may keep. Last comes what the tokens
mean: equal ids may stand for other texts.

``viz/static/compare.js`` answers the same of the frames; a test holds one against the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Frame: TypeAlias = "dict[str, Any]"
Frames: TypeAlias = "Sequence[Frame]"

# The order in which entries are compared: what a reader would name first stands first.
ENTRIES = (
    *("phase", "turn", "sub", "lane", "batch", "rank", "fault", "more_faults"),
    *("reject", "refuse", "admit", "alloc", "free", "release", "batch_info", "tokens"),
    *("table", "reqs", "stored", "tree"),
)


@dataclass(frozen=True)
class Difference:
    """Where two traces part: the frame in each, None if it has none, and what stands there."""

    kind: str  # "token", "turn" or "vocab"
    left_frame: int | None
    right_frame: int | None
    left: Any
    right: Any
    uid: int | None = None
    index: int | None = None  # of the output token, from 0; of "vocab": the token's id
    turn: int | None = None

    def __str__(self) -> str:
        where = f"step {self.turn}"
        if self.kind == "token":
            where = f"r{self.uid}, output token {self.index}"
        elif self.kind == "vocab":
            where = f"the bytes of token {self.index}"
        return f"{where}: {self.left} in the first, {self.right} in the second"


def _tokens(frames: Frames) -> dict[tuple[int, int], tuple[int, int]]:
    """(uid, number of the shown token) -> (token, frame)."""
    counts: dict[int, int] = {}
    found = {}
    for i, frame in enumerate(frames):
        for uid, token, shown, _, _ in frame.get("tokens", ()):
            if shown:
                found[uid, counts.setdefault(uid, 0)] = (token, i)
                counts[uid] += 1
    return found


def _token_difference(left: Frames, right: Frames) -> Difference | None:
    mine, other = _tokens(left), _tokens(right)
    nothing = (None, None)
    for key in [*mine, *(key for key in other if key not in mine)]:
        (token, i), (there, j) = mine.get(key, nothing), other.get(key, nothing)
        if token != there:
            return Difference("token", i, j, token, there, uid=key[0], index=key[1])
    return None


def _without_books(frame: Frame) -> Frame:
    """The frame without the tree and the nodes that requests hold."""
    known = {name: part for name, part in frame.items() if name != "tree"}
    reqs = {
        uid: {name: value for name, value in req.items() if name != "node"}
        for uid, req in frame.get("reqs", {}).items()
    }
    return known | {"reqs": {uid: req for uid, req in reqs.items() if req}}


def _what(left: Frame, right: Frame) -> tuple[Frame, Frame]:
    """The first entry of two frames that differs, with its name."""
    others = sorted({*left, *right} - {*ENTRIES})
    for key in (*ENTRIES, *others):
        if left.get(key) != right.get(key):
            return {key: left.get(key)}, {key: right.get(key)}
    raise AssertionError("the frames are equal")


def _first_frame(left: Frames, right: Frames) -> Difference | None:
    for i, (mine, other) in enumerate(zip(left, right, strict=False)):
        if mine != other:
            turn = min(mine["turn"], other["turn"])
            return Difference("turn", i, i, *_what(mine, other), turn=turn)
    return None


def _end_of_one(left: Frames, right: Frames) -> Difference | None:
    if len(left) == len(right):
        return None
    i = min(len(left), len(right))
    first, second = ((f[i] if i < len(f) else None) for f in (left, right))
    extra = first or second
    assert extra is not None
    return Difference(
        "turn",
        i if first else None,
        i if second else None,
        first and first["phase"],
        second and second["phase"],
        turn=extra["turn"],
    )


def first_difference(left: Frames, right: Frames) -> Difference | None:
    """By request and output token, else by turn; None when the runs are equal."""
    told = [[_without_books(frame) for frame in frames] for frames in (left, right)]
    return (
        _token_difference(left, right)
        or _first_frame(*told)
        or _end_of_one(left, right)
        or _first_frame(left, right)
    )


def vocab_difference(left: Mapping[int, bytes], right: Mapping[int, bytes]) -> Difference | None:
    """The first token id whose bytes differ, or are known in one trace only."""
    for token in sorted({*left, *right}):
        mine, other = left.get(token), right.get(token)
        if mine != other:
            return Difference("vocab", None, None, mine, other, index=token)
    return None
