from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minisgl_lite.teaching.checks import EXERCISES, PUBLIC, load_exercises

load_exercises()
TEMPLATE = EXERCISES["find-stolen-page"].template
assert TEMPLATE is not None
PLACE = TEMPLATE.solve(TEMPLATE.task(PUBLIC))

Admission = Callable[[int, int, int, int], list[str]]


def namespace(answer: Any) -> dict[str, Any]:
    """A function with the right place, or a place with the right function."""
    if callable(answer):
        return {"stolen": PLACE, "admission": answer}
    return {"stolen": dict(zip(("step", "slot"), answer, strict=True)), "admission": reference}


def reference(need: int, reserved: int, available: int, hit: int) -> list[str]:
    if need + reserved > available:
        return ["refuse"]
    if need + reserved > available - hit:
        return ["lock", "unlock", "refuse"]
    return ["lock", "admit"]


def by_room_left(need: int, reserved: int, available: int, hit: int) -> list[str]:
    """Reckons in the room that is left, and locks only what it takes."""
    room = available - hit - reserved - need
    words = ["refuse", "admit"][room >= 0]
    return ["lock"] * (words == "admit") + [words]


def as_it_was(need: int, reserved: int, available: int, hit: int) -> list[str]:
    return ["refuse"] if need + reserved > available else ["admit"]


def locks_twice(need: int, reserved: int, available: int, hit: int) -> list[str]:
    words = reference(need, reserved, available, hit)
    return ["lock", *words] if words[-1] == "admit" else words


def does_not_compare_again(need: int, reserved: int, available: int, hit: int) -> list[str]:
    return ["refuse"] if need + reserved > available else ["lock", "admit"]


def keeps_the_lock(need: int, reserved: int, available: int, hit: int) -> list[str]:
    if need + reserved > available - hit:
        return ["lock", "refuse"]
    return ["lock", "admit"]


def unlocks_at_once(need: int, reserved: int, available: int, hit: int) -> list[str]:
    return [
        word if word != "admit" else "admit"
        for word in ("lock", "unlock", reference(need, reserved, available, hit)[-1])
    ]


def forgets_the_promises(need: int, reserved: int, available: int, hit: int) -> list[str]:
    return reference(need, 0, available, hit)


def exactly_full_is_too_much(need: int, reserved: int, available: int, hit: int) -> list[str]:
    return reference(need + 1, reserved, available, hit)


def hit_counts_twice(need: int, reserved: int, available: int, hit: int) -> list[str]:
    return reference(need, reserved, available - hit, hit)


def hit_is_room(need: int, reserved: int, available: int, hit: int) -> list[str]:
    return reference(need, reserved, available + hit, hit)


def takes_off_anothers_lock(need: int, reserved: int, available: int, hit: int) -> list[str]:
    words = reference(need, reserved, available, hit)
    return ["unlock", "refuse"] if words == ["refuse"] else words


def goes_on_after_refusing(need: int, reserved: int, available: int, hit: int) -> list[str]:
    words = reference(need, reserved, available, hit)
    return ["lock", "refuse", "unlock"] if words[-1] == "refuse" else words


def a_bool(need: int, reserved: int, available: int, hit: int) -> Any:
    return need + reserved <= available - hit


RIGHT = [reference, by_room_left]
WRONG: dict[Any, str] = {
    as_it_was: "it is admitted, and its match may be evicted at any time",
    locks_twice: "one lock is taken off at its release; 1 would stay",
    does_not_compare_again: "4 tokens are promised then, of 0",
    keeps_the_lock: "it is refused, and nobody will ever take this lock off",
    unlocks_at_once: "it is admitted, and its match may be evicted at any time",
    forgets_the_promises: "tokens are promised then, of",
    exactly_full_is_too_much: "there is room for it, under its lock, too",
    hit_counts_twice: "there is room for it, under its lock, too",
    hit_is_room: "tokens are promised then, of",
    takes_off_anothers_lock: "it unlocks what it has not locked",
    goes_on_after_refusing: "admit or refuse comes last",
    a_bool: "returned True; a list of lock, unlock, admit, refuse is wanted",
    (PLACE["step"] + 1, PLACE["slot"]): "stolen['step'] is not",
    (PLACE["step"], PLACE["slot"] + 1): "stolen['slot'] is not",
}
