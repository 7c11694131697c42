"""A plain sentence per frame, in the chapter's words: the twin of ``static/sentences.js``.

The page makes its own sentences; these are for where no script runs, and for text. A test holds
one against the other.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..text import say
from ..trace import ReqState, State, Trace
from ..trace.faults import EARLY, fault_text, faults_of
from ..trace.runs import from_runs, to_runs

NAMED = 2  # requests named in one sentence; of more, their number is said
TOKEN_CHARS = 12


def sentence(trace: Trace, index: int, state: State | None = None) -> str:
    """What happens in frame ``index``; ``state``, if given, is the state after it."""
    if not trace.frames:
        return say("sentence.empty")
    frame = trace.frames[index]
    state = trace.state_at(index) if state is None else state
    told = _Told(trace, index, frame, state)
    parts = [_MAKERS[frame["phase"]](told)]
    if faults := faults_of(frame):
        first, *more = faults
        key = "sentence.fault.early" if first.get("kind") in EARLY else "sentence.fault"
        rest = [_count("sentence.fault.more", len(more))] if more else []
        parts = [say(key, text=fault_text(first)), *rest, *parts]
    return _join(parts)


def token_text(trace: Trace, token: int, most: int = TOKEN_CHARS) -> str:
    """A token for people: a part of a character as ⟨E6⟩, a space as ␣, cut to ``most``."""
    if token not in trace.vocab:
        return f"#{token}"
    shown = visible_text(trace.vocab[token])
    if unicodedata.category(shown[:1] or "x").startswith("M"):
        shown = f"◌{shown}"
    if token in trace.meta.get("special", ()):
        shown = f"◆{shown}"
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def visible_text(text: bytes) -> str:
    """Bytes as text in which nothing is hidden."""
    decoded = text.decode("utf-8", errors="surrogateescape")
    return "".join(map(_visible, decoded.replace("\r\n", "\n")))


def _visible(char: str) -> str:
    if char in (" ", "\n", "\t"):
        return {" ": "␣", "\n": "↵", "\t": "⇥"}[char]
    if "\udc80" <= char <= "\udcff":  # a byte that is no character
        return f"⟨{ord(char) - 0xDC00:02X}⟩"
    hidden = unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")
    return f"⟨{ord(char):04X}⟩" if hidden else char


def slot_text(slots: Iterable[int], most: int = 4) -> str:
    """``0–8, 20``: slots in their order."""
    runs = to_runs(slots)
    shown = [
        str(first) if count == 1 else f"{first}–{first + count - 1}" for first, count in runs[:most]
    ]
    return ", ".join([*shown, say("more", n=len(runs) - most)] if len(runs) > most else shown)


@dataclass
class _Told:
    trace: Trace
    index: int
    frame: dict[str, Any]
    state: State

    def req(self, uid: int) -> ReqState:
        return self.state.reqs[uid]

    def token(self, token: int) -> str:
        # Isolates keep a token's direction to itself, as <bdi> does in markup.
        return f"\u2068{token_text(self.trace, token)}\u2069"


def _join(parts: Iterable[str]) -> str:
    return " ".join(part for part in parts if part)


def _number(n: int) -> str:
    return f"{n:,}"


def _count(key: str, count: int, /, **values: object) -> str:
    return say(f"{key}.{'one' if count == 1 else 'many'}", **{"n": _number(count)} | values)


def _list(parts: Sequence[str], most: int = NAMED) -> str:
    if len(parts) <= most:
        return " ".join(parts)
    return f"{' '.join(parts[:most])} {_count('sentence.more', len(parts) - most)}"


def _starts(starts: Sequence[int], most: int = 6) -> str:
    shown = ", ".join(map(str, starts[:most]))
    return f"{shown}, {say('more', n=len(starts) - most)}" if len(starts) > most else shown


def _cut(name: str, start: int, end: int, row: int | None = None) -> str:
    inside = str(start) if end - start == 1 else f"{start}:{end}"
    return f"{name}[{inside}]" if row is None else f"{name}[{row}, {inside}]"


def _receive(told: _Told) -> str:
    parts = [
        _count(
            "sentence.receive",
            req["input_len"],
            uid=uid,
            out=_number(req["max_device_len"] - req["input_len"]),
        )
        for uid, req in told.frame.get("reqs", {}).items()
        if req.get("state") == "waiting"
    ]
    for entry in told.frame.get("reject", ()):
        reason = entry["reason"].removeprefix("error: ")
        parts.append(say("sentence.rejected", uid=entry["uid"], reason=reason))
    return _list(parts) if parts else say("sentence.begin")


def _abort(told: _Told) -> str:
    released = {entry["uid"] for entry in told.frame.get("release", ())}
    parts = []
    for uid, req in told.frame.get("reqs", {}).items():
        if req.get("state") == "aborted":
            flight = told.req(int(uid)).row is not None
            kind = ".flight" if flight else "" if int(uid) in released else ".waiting"
            parts.append(say(f"sentence.abort{kind}", uid=uid))
    return _list([part for part in [*parts, _release(told)] if part], 6)


def _admit(told: _Told) -> str:
    parts = []
    for entry in told.frame.get("admit", ()):
        req, matched = told.req(entry["uid"]), entry["matched"]
        values: dict[str, Any] = {
            "uid": req.uid,
            "row": entry["row"],
            "matched": _number(matched),
            "rest": _number(req.input_len - matched),
            "from": req.cached_len,
            "to": req.device_len,
            "n": _number(req.input_len),
        }
        if req.cached_len > matched:  # a later chunk keeps its row
            parts.append(say("sentence.admit.next", **values))
            continue
        if matched:
            values["slots"] = slot_text(told.state.table[entry["row"]][:matched])
        key = "sentence.admit.hit" if matched else "sentence.admit.miss"
        chunk = say("sentence.admit.chunk", **values) if entry["chunk"] else ""
        parts.append(_join([_count(key, matched or req.input_len, **values), chunk]))
    if refuse := told.frame.get("refuse"):
        values = {k: _number(refuse[k]) for k in ("need", "reserved", "available")}
        parts.append(say(f"sentence.refuse.{refuse['why']}", uid=refuse["uid"], **values))
    return _list(parts, NAMED + 1)


def _evict(told: _Told) -> str:
    put = told.frame.get("free", {}).get("put", [])
    return _count("sentence.evict", len(put), starts=_starts(put))


def _allocate(told: _Told) -> str:
    size = told.state.page_size
    parts = []
    for uid, first, last, starts in told.frame.get("alloc", ()):
        slots = [start + i for start in starts for i in range(size)]
        key = "sentence.allocate.slot" if size == 1 else "sentence.allocate"
        cells = _cut("page_table", first * size, last * size, told.req(uid).row)
        parts.append(
            _count(
                key,
                last - first,
                uid=uid,
                starts=_starts(starts),
                slots=slot_text(slots),
                cells=cells,
            )
        )
    return _list(parts)


def _batch_info(told: _Told) -> dict[str, Any]:
    number = told.frame["batch"]
    frames = told.trace.frames[told.index :: -1]
    return next(f["batch_info"] for f in frames if f["batch"] == number and "batch_info" in f)


def _spans(told: _Told, key: str) -> list[str]:
    """The sentence ``key`` for each real request of the batch."""
    info = _batch_info(told)
    slots = from_runs(info["out_loc"])
    parts, at = [], 0
    for uid, ext, cached in zip(info["uids"], info["ext"], info["cached"], strict=True):
        if uid >= 0:
            values = {
                "uid": uid,
                "out": _cut("out_loc", at, at + ext),
                "cells": _cut("page_table", cached, cached + ext, told.req(uid).row),
                "slots": slot_text(slots[at : at + ext]),
                "read": _number(cached + ext),
            }
            parts.append(say(f"{key}.{'one' if ext == 1 else 'many'}", **values))
        at += ext
    return parts


def _prepare(told: _Told) -> str:
    info = _batch_info(told)
    total, padding = sum(info["ext"]), info["uids"].count(-1)
    took = any(
        frame.get("free", {}).get("take")
        for frame in told.trace.frames[: told.index + 1]
        if frame["turn"] == told.frame["turn"]
    )
    room = say("sentence.prepare.room") if info["phase"] == "decode" and not took else ""
    return _join(
        [
            _count(f"sentence.prepare.{info['phase']}", total),
            _list(_spans(told, "sentence.prepare")),
            room,
            _count("sentence.padding", padding) if padding else "",
        ]
    )


def _forward(told: _Told) -> str:
    phase = say(f"step.{_batch_info(told)['phase']}")
    return f"{phase}: {_list(_spans(told, 'sentence.forward'))}"


def _sample(told: _Told) -> str:
    fresh, others, without = [], [], 0
    for uid, token, shown, finished, reason in told.frame.get("tokens", ()):
        req = told.state.reqs.get(uid)
        ids = req.ids if req else []
        values = {"uid": uid, "token": told.token(token), "pos": len(ids) - 1}
        if not shown and not finished:
            chunk = req is not None and req.state == "chunk"
            others.append(say(f"sentence.sample.{'chunk' if chunk else 'dropped'}", **values))
        elif finished:
            end = "stop" if reason == "stop" else "length"
            others.append(say(f"sentence.sample.{end}", **values))
        else:
            fresh.append(say("sentence.sample", **values))
            without += req is not None and req.cached_len < len(ids)
    no_kv = _count("sentence.sample.fresh", without) if without else ""
    return _join([_list(fresh), no_kv, _list(others)])


def _release(told: _Told) -> str:
    parts = []
    for entry in told.frame.get("release", ()):
        uid, finished = entry["uid"], entry["finished"]
        reason = told.req(uid).reason or "" if uid in told.state.reqs else ""
        failed = finished and reason.startswith("error: ")
        kind = "failed" if failed else "end" if finished else "live"
        ranges = [
            say(
                f"range.{kind}.short{'.live' if kind == 'matched' and not finished else ''}",
                **{"from": start, "to": end},
            )
            for kind, start, end, _ in entry["ranges"]
            if end > start
        ]
        head = say(f"sentence.release.{kind}", uid=uid, reason=reason[7:])
        moved = entry["remapped"]
        slots = slot_text(from_runs(moved)) if moved else ""
        remapped = say("sentence.release.remapped", slots=slots) if moved else ""
        parts.append(_join([f"{head} {'; '.join(ranges)}.", remapped]))
    put = told.frame.get("free", {}).get("put", [])
    back = _count("sentence.release.put", len(put), starts=_starts(put)) if put and parts else ""
    return _join([_list(parts), back])


_MAKERS: dict[str, Callable[[_Told], str]] = {
    "receive": _receive,
    "abort": _abort,
    "admit": _admit,
    "evict": _evict,
    "allocate": _allocate,
    "prepare": _prepare,
    "forward": _forward,
    "sample": _sample,
    "release": _release,
}
