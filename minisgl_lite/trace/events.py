"""Names of events in a trace: ``first-decode:r1`` and the like, so that no text counts frames."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .faults import faults_of

PHASES = (
    "receive",
    "abort",
    "admit",
    "evict",
    "allocate",
    "prepare",
    "forward",
    "sample",
    "release",
)
_NAME = re.compile(r"(?P<kind>[a-z-]+)(:r(?P<uid>\d+))?(:(?P<number>\d+))?(#(?P<nth>[1-9]\d*))?")
_FORMS = (
    "start, end, turn:N, "
    + ", ".join(PHASES)
    + ", split, fault (all but start, end, turn and fault also with :rUID), "
    "hit:rUID, chunk:rUID, refuse:rUID, reject:rUID, finish:rUID, first-decode:rUID, token:rUID:N"
)


def uids_of(frame: dict[str, Any]) -> Iterator[int]:
    """The requests that take part in a frame: those that changed, and those of its batch."""
    yield from (int(uid) for uid in frame.get("reqs", {}))
    yield from frame.get("batch_info", {}).get("uids", ())
    yield from (entry[0] for entry in frame.get("alloc", ()))
    yield from (entry[0] for entry in frame.get("tokens", ()))
    yield from (entry["uid"] for entry in frame.get("admit", ()))
    yield from (entry["uid"] for entry in frame.get("release", ()))


def _admitted(frame: dict[str, Any], uid: int | None, key: str) -> bool:
    return any(uid in (None, e["uid"]) and e[key] for e in frame.get("admit", ()))


def _state(frame: dict[str, Any], uid: int | None, *states: str) -> bool:
    reqs = frame.get("reqs", {})
    chosen = reqs.values() if uid is None else filter(None, [reqs.get(str(uid))])
    return any(req.get("state") in states for req in chosen)


def _finished(frame: dict[str, Any], uid: int | None) -> bool:
    return any(finished and uid in (None, u) for u, _, _, finished, _ in frame.get("tokens", ()))


def _decodes(frame: dict[str, Any], uid: int | None) -> bool:
    info = frame.get("batch_info")
    return info is not None and info["phase"] == "decode" and (uid is None or uid in info["uids"])


_SPECIAL: dict[str, Callable[[dict[str, Any], int | None], bool]] = {
    "first-decode": _decodes,
    "hit": lambda frame, uid: _admitted(frame, uid, "matched"),
    "chunk": lambda frame, uid: _admitted(frame, uid, "chunk"),
    "refuse": lambda frame, uid: "refuse" in frame and uid in (None, frame["refuse"]["uid"]),
    "reject": lambda frame, uid: _state(frame, uid, "rejected"),
    "finish": _finished,
    "fault": lambda frame, uid: any(uid in (None, f.get("uid")) for f in faults_of(frame)),
    "split": lambda frame, uid: any(op[0] == "split" for op in frame.get("tree", ())),
}


def _matches(frames: Sequence[dict[str, Any]], kind: str, uid: int | None) -> list[int]:
    test = _SPECIAL.get(kind)
    if test is not None:
        return [i for i, frame in enumerate(frames) if test(frame, uid)]
    return [
        i
        for i, frame in enumerate(frames)
        if frame["phase"] == kind and (uid is None or uid in uids_of(frame))
    ]


def _token(frames: Sequence[dict[str, Any]], uid: int, number: int) -> list[int]:
    found = [i for i, f in enumerate(frames) for entry in f.get("tokens", ()) if _shown(entry, uid)]
    return found[number : number + 1]


def _shown(entry: Sequence[Any], uid: int) -> bool:
    return bool(entry[0] == uid and entry[2])


def find_event(frames: Sequence[dict[str, Any]], event: str) -> int:
    """The index of the first frame that fits ``event``. Raises ValueError, with what is allowed."""
    match = _NAME.fullmatch(event) if isinstance(event, str) else None
    if match is None:
        raise ValueError(f"event {event!r} is not one of: {_FORMS}; #2 behind it is the second")
    kind, nth = match["kind"], int(match["nth"] or 1)
    uid = None if match["uid"] is None else int(match["uid"])
    number = None if match["number"] is None else int(match["number"])
    if kind == "token" and uid is not None and number is not None:
        found = _token(frames, uid, number)
    elif kind == "turn" and uid is None and number is not None:
        found = [i for i, frame in enumerate(frames) if frame["turn"] == number]
    elif number is None and kind in ("start", "end") and uid is None:
        found = [0 if kind == "start" else len(frames) - 1] if frames else []
    elif number is None and (kind in PHASES or kind in _SPECIAL):
        found = _matches(frames, kind, uid)
    else:
        raise ValueError(f"event {event!r} is not one of: {_FORMS}; #2 behind it is the second")
    if nth > len(found):
        raise ValueError(f"event {event!r} does not happen in this trace ({len(found)} found)")
    return found[nth - 1]
