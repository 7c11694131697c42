from __future__ import annotations

from typing import Any


def reference(
    matched: int, known: int, computed: int, page_size: int, finished: bool
) -> dict[str, Any]:
    whole = computed // page_size * page_size
    end = -(-computed // page_size) * page_size
    free = list(range(matched, known, page_size))
    if finished:
        free += range(whole, end, page_size)
    return {
        "matched": (0, matched),
        "duplicate": (matched, known),
        "registered": (known, whole),
        "tail": (whole, end),
        "free": free,
        "repoint": (matched, known) if known > matched and not finished else None,
    }


def page_by_page(
    matched: int, known: int, computed: int, page_size: int, finished: bool
) -> dict[str, Any]:
    """Asks of each page whose it is, and joins neighbours; no rounding."""
    names = ("matched", "duplicate", "registered", "tail")
    fates: list[str] = []
    position = 0
    while position < computed:
        if position < matched:
            fates.append("matched")
        elif position < known:
            fates.append("duplicate")
        else:
            fates.append("registered" if position + page_size <= computed else "tail")
        position += page_size
    answer: dict[str, Any] = {}
    at = 0
    for name in names:
        count = fates.count(name) * page_size
        answer[name] = [at, at + count]
        at += count
    gone = {"duplicate", "tail"} if finished else {"duplicate"}
    answer["free"] = [i * page_size for i, fate in enumerate(fates) if fate in gone]
    answer["repoint"] = None
    if "duplicate" in fates and not finished:
        answer["repoint"] = answer["duplicate"]
    return answer


def changed(**changes: Any) -> Any:
    def answer(
        matched: int, known: int, computed: int, page_size: int, finished: bool
    ) -> dict[str, Any]:
        right = reference(matched, known, computed, page_size, finished)
        scope = dict(right, m=matched, k=known, n=computed, P=page_size, finished=finished)
        return right | {key: rule(scope) for key, rule in changes.items()}

    return answer


def duplicates(s: dict[str, Any]) -> list[int]:
    return list(range(s["m"], s["k"], s["P"]))


def tails(s: dict[str, Any]) -> list[int]:
    return list(range(*s["tail"], s["P"]))


def named(name: str, answer: Any) -> Any:
    answer.__name__ = name
    return answer


tail_leaked = named("tail_leaked", changed(free=duplicates))
tail_freed_while_living = named(
    "tail_freed_while_living", changed(free=lambda s: duplicates(s) + tails(s))
)
duplicate_freed_twice = named(
    "duplicate_freed_twice", changed(free=lambda s: duplicates(s) + s["free"])
)
duplicate_leaked = named(
    "duplicate_leaked", changed(free=lambda s: tails(s) if s["finished"] else [])
)
matched_freed = named(
    "matched_freed",
    changed(free=lambda s: list(range(0, s["k"], s["P"])) + (tails(s) if s["finished"] else [])),
)
registered_freed = named(
    "registered_freed",
    changed(free=lambda s: s["free"] + list(range(*s["registered"], s["P"])) * s["finished"]),
)
row_not_repointed = named("row_not_repointed", changed(repoint=lambda s: None))
repointed_when_ended = named(
    "repointed_when_ended", changed(repoint=lambda s: s["duplicate"] if s["k"] > s["m"] else None)
)
border_rounded_up = named("border_rounded_up", changed(registered=lambda s: (s["k"], s["tail"][1])))
tail_to_the_last_token = named(
    "tail_to_the_last_token", changed(tail=lambda s: (s["tail"][0], s["n"]))
)
slots_of_pages = named(
    "slots_of_pages", changed(free=lambda s: [p + i for p in s["free"] for i in range(s["P"])])
)
tail_before_duplicate = named(
    "tail_before_duplicate",
    changed(free=lambda s: (tails(s) if s["finished"] else []) + duplicates(s)),
)


def last_page_lost(m: int, k: int, n: int, page_size: int, finished: bool) -> dict[str, Any]:
    """Takes a full last page for a tail."""
    return reference(m, k, n, page_size, finished) | {
        "registered": (k, max(k, (n - 1) // page_size * page_size))
    }


def pages_of_four(m: int, k: int, n: int, page_size: int, finished: bool) -> dict[str, Any]:
    return reference(m, k, n, 4, finished)


def in_the_order_of_the_keys(m: int, k: int, n: int, size: int, finished: bool) -> Any:
    return tuple(reference(m, k, n, size, finished).values())


RIGHT = [reference, page_by_page]
WRONG = {
    tail_leaked: "is not free again, and nobody holds it",
    tail_freed_while_living: "page 5 (slot 20) was freed, but r2 lives and reads it at position 8",
    duplicate_freed_twice: "the KV sanitizer stops it: step 1",
    duplicate_leaked: "is not free again, and nobody holds it",
    matched_freed: "the KV sanitizer stops it: step",
    registered_freed: "the KV sanitizer stops it: step",
    row_not_repointed: "page 3 (slot 12) was freed, but r2 lives and reads it at position 0",
    repointed_when_ended: "repoint is (",
    border_rounded_up: "registered is (",
    tail_to_the_last_token: "tail is (",
    slots_of_pages: "the KV sanitizer stops it: step 1",
    tail_before_duplicate: "free is [",
    last_page_lost: "registered is (",
    pages_of_four: "release_ranges(",
    in_the_order_of_the_keys: "a dict with the keys matched, duplicate, registered, tail, free",
}
