"""What goes wrong in a stream on one side, found from outside: reads, replies, pages, rows."""

from __future__ import annotations

from typing import Any

from tests.reference.pairs import MOST_TURNS, Side
from tests.reference.streams import Stream
from tests.teaching.sides import WatchingEngine

KINDS = {
    "read": "a request read a slot that holds another prefix",
    "fed": "the model was given an id that is not the request's own",
    "raised": "an error left the loop",
    "stuck": "it did not come to rest",
    "early": "finished was said before the last token",
    "late": "a token was shown after the abort",
    "pages": "at rest a page is lost, or in two places, or locked",
    "rows": "at rest a table row is lost, or free twice",
}


def damage(stream: Stream, side: str) -> set[str]:
    """The ``KINDS`` seen when ``side`` runs ``stream``; empty for a right engine."""
    one = Side(side, stream, engine=WatchingEngine)
    found: set[str] = set()
    told: dict[int, int] = {}
    """Replies that a request had when it was aborted, once it is known that it had begun."""
    turn = 0
    while turn <= stream.last_turn or one.world.busy:
        if turn >= MOST_TURNS:
            return found | {"stuck"}
        one.feed(turn)
        arrived = {uid for when, uid, *_ in stream.arrivals if when <= turn}
        for when, uid in stream.aborts:
            if when == turn and uid in arrived:
                told.setdefault(uid, len(one.world.replies_of(uid)))
        if not one.turn():
            return found | {"raised"} | _seen(one, told)
        turn += 1
    return found | _seen(one, told) | _at_rest(one)


def _seen(one: Side, told: dict[int, int]) -> set[str]:
    engine: Any = one.world.engine
    found = {"read"} if engine.bad_reads else set()
    if engine.wrong_ids:
        found.add("fed")
    for _, uid, *_ in one.stream.arrivals:
        ends = [finished for _, finished in one.world.replies_of(uid)]
        if any(ends[:-1]):
            found.add("early")
        if len(ends) > told.get(uid, len(ends)):
            found.add("late")
    return found


def _at_rest(one: Side) -> set[str]:
    manager: Any = one.world.cache
    size = manager.page_size
    slots = [start + i for start in manager.free_slots.tolist() for i in range(size)]
    for _, values, _, _ in one.tree():
        slots += values
    found = set()
    if sorted(slots) != list(range(manager.num_pages * size)) or one.world.sizes[1] != 0:
        found.add("pages")
    if sorted(one.world.scheduler.table_manager._free_slots) != list(range(one.stream.rows)):
        found.add("rows")
    return found
