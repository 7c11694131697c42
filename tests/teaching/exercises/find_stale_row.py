from __future__ import annotations

from typing import Any

from minisgl_lite.teaching.checks import EXERCISES, PUBLIC, load_exercises

load_exercises()
TEMPLATE = EXERCISES["find-stale-row"].template
assert TEMPLATE is not None
PLACE = TEMPLATE.solve(TEMPLATE.task(PUBLIC))


def namespace(answer: Any) -> dict[str, Any]:
    """A function with the right place, or a place with the right function."""
    if callable(answer):
        return {"stale": PLACE, "repointed": answer}
    keys = ("step", "request", "slot")
    return {"stale": dict(zip(keys, answer, strict=True)), "repointed": reference}


Slots = list[int]


def reference(row: Slots, cached: Slots, matched: int, known: int) -> Slots:
    return row[:matched] + cached[matched:known] + row[known:]


def cached_first(row: Slots, cached: Slots, matched: int, known: int) -> Slots:
    """Whatever the cache holds is in the row; the rest is the request's own. Needs no lengths."""
    return [cached[at] if at < len(cached) else slot for at, slot in enumerate(row)]


def as_it_was(row: Slots, cached: Slots, matched: int, known: int) -> Slots:
    return list(row)


def one_too_few(row: Slots, cached: Slots, matched: int, known: int) -> Slots:
    return reference(row, cached, matched, max(matched, known - 1))


def one_too_late(row: Slots, cached: Slots, matched: int, known: int) -> Slots:
    return reference(row, cached, min(matched + 1, known), known)


def from_the_start_of_cached(row: Slots, cached: Slots, matched: int, known: int) -> Slots:
    return row[:matched] + cached[: known - matched] + row[known:]


def whole_row_is_cached(row: Slots, cached: Slots, matched: int, known: int) -> Slots:
    return list(cached)


def duplicate_dropped(row: Slots, cached: Slots, matched: int, known: int) -> Slots:
    return row[:matched] + row[known:]


def tail_moved_up(row: Slots, cached: Slots, matched: int, known: int) -> Slots:
    return cached[:known] + row[matched:][: len(row) - known]


def sides_exchanged(row: Slots, cached: Slots, matched: int, known: int) -> Slots:
    return cached[:matched] + row[matched:known] + cached[known:] + row[len(cached) :]


def pages_of_four(row: Slots, cached: Slots, matched: int, known: int) -> Slots:
    starts = cached[matched:known:4]
    slots = [start + i for start in starts for i in range(4)]
    return row[:matched] + slots[: known - matched] + row[known:]


def in_place(row: Slots, cached: Slots, matched: int, known: int) -> Slots:
    row[matched:known] = cached[matched:known]
    return row


def a_tuple(row: Slots, cached: Slots, matched: int, known: int) -> Any:
    return tuple(reference(row, cached, matched, known))


RIGHT = [reference, cached_first]
WRONG: dict[Any, str] = {
    as_it_was: "the KV sanitizer stops it: step 1: page 3 (slot 12) was freed, but r2 lives",
    one_too_few: "the KV sanitizer stops it: step 1",
    one_too_late: "the KV sanitizer stops it: step 1",
    from_the_start_of_cached: "position",
    whole_row_is_cached: "entries; 12 are wanted",
    duplicate_dropped: "entries; 12 are wanted",
    tail_moved_up: "the KV sanitizer stops it: step 1",
    sides_exchanged: "the KV sanitizer stops it: step 1",
    pages_of_four: "position",
    in_place: "changed its argument number 1, which must stay as it was: work on a copy",
    a_tuple: "a list is wanted",
    (PLACE["step"] + 1, PLACE["request"], PLACE["slot"]): "stale['step'] is not",
    (PLACE["step"], PLACE["request"] - 1, PLACE["slot"]): "stale['request'] is not",
    (PLACE["step"], PLACE["request"], PLACE["slot"] + 1): "stale['slot'] is not",
}
