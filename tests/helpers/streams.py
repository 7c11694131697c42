"""Random streams of requests through a tiny world, each request compared with a run alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from helpers.books import audit, audit_idle
from helpers.reading import STOP, ReadingEngine, alone
from helpers.world import LOOPS, World, make_world
from minisgl_lite.trace import KVSanitizer

PAGE_SIZES = (1, 2, 4, 16)
ODD_PAGE_SIZES = (3, 48, 256)


@dataclass
class Stream:
    """What happens, by turn; drawn from a seed alone."""

    page_size: int
    num_pages: int
    loop: str
    cache: str
    rows: int
    budget: int
    graph_bs: tuple[int, ...]
    arrivals: list[tuple[int, int, list[int], int]] = field(default_factory=list)
    """(turn, uid, prompt, max_tokens)"""
    aborts: list[tuple[int, int]] = field(default_factory=list)
    """(turn, uid)"""


def draw(seed: int, page_sizes: tuple[int, ...] = PAGE_SIZES) -> Stream:
    rng = random.Random(seed)
    page_size = page_sizes[seed % len(page_sizes)]
    slots = rng.choice([12, 16, 24, 32, 48])
    stream = Stream(
        page_size=page_size,
        num_pages=max(2, -(-slots // page_size)),
        loop=LOOPS[seed // 4 % 3],
        cache="naive" if seed // 12 % 4 == 3 else "radix",
        rows=rng.choice([1, 2, 3, 8]),
        budget=rng.choice([2, 3, 5, 8, 100]),
        graph_bs=rng.choice([(), (), (2, 4), (1, 2, 4, 8)]),
    )
    room = stream.num_pages * page_size
    stems = [[rng.randrange(STOP) for _ in range(rng.randint(1, room))] for _ in range(2)]
    for uid in range(rng.randint(3, 14)):
        stem = rng.choice(stems)
        prompt = stem[: rng.randint(0, min(len(stem), room - 2))]
        prompt = prompt + [rng.randrange(STOP) for _ in range(rng.choice([0, 1, 1, 2, 5]))]
        prompt = (prompt or [0])[: room - 1]
        stream.arrivals.append((rng.choice([0, 0, 1, 2, 4, 7, 12]), uid, prompt, rng.randint(1, 7)))
    stream.arrivals.sort(key=lambda arrival: arrival[0])
    if rng.random() < 0.6:
        for _ in range(rng.randint(1, 5)):
            stream.aborts.append((rng.randint(0, 20), rng.randrange(len(stream.arrivals) + 1)))
    return stream


def play(stream: Stream) -> World:
    """Run the stream under the sanitizer; audit after each turn. Raises at the first thing wrong.

    The pool's own books, the sanitizer's and this file's: three that know nothing of each other.
    """
    world = make_world(
        stream.num_pages,
        stream.page_size,
        loop=stream.loop,
        cache=stream.cache,
        rows=stream.rows,
        budget=stream.budget,
        graph_bs=stream.graph_bs,
        eos=STOP,
        engine=ReadingEngine,
    )
    KVSanitizer(world.scheduler)
    last = max([turn for turn, *_ in stream.arrivals] + [turn for turn, _ in stream.aborts])
    shown_at_abort: dict[int, int] = {}
    turn = 0
    while turn <= last or world.busy:
        assert turn < 2000, "does not come to rest"
        for when, uid, prompt, max_tokens in stream.arrivals:
            if when == turn:
                world.add(uid, prompt, max_tokens)
        for when, uid in stream.aborts:
            if when == turn:
                world.abort(uid)
                if any(arrival[1] == uid and arrival[0] <= turn for arrival in stream.arrivals):
                    shown_at_abort.setdefault(uid, len(world.replies_of(uid)))
        world.step()
        assert not world.engine.wrong_reads, world.engine.wrong_reads[0]
        audit(world.scheduler)
        world.cache.check_integrity(world.scheduler.live_reqs())
        turn += 1
    audit_idle(world.scheduler)
    for _, uid, prompt, max_tokens in stream.arrivals:
        compare(world, stream, uid, prompt, max_tokens, shown_at_abort.get(uid))
    return world


def compare(
    world: World, stream: Stream, uid: int, prompt: list[int], max_tokens: int, shown: int | None
) -> None:
    """Exactly the tokens of a run alone; an aborted one a part of them, and nothing afterwards."""
    room = stream.num_pages * stream.page_size - len(prompt)
    want = alone(prompt, min(max_tokens, room))
    replies = world.replies_of(uid)
    got = [token for token, _ in replies]
    if shown is not None:
        assert len(got) == shown, f"request {uid}: {len(got) - shown} tokens after its abort"
        want = want[:shown]
    assert got == want, f"request {uid} of {prompt}: said {got}, alone {want}"
    ends = [finished for _, finished in replies]
    complete = shown is None or len(want) == len(alone(prompt, min(max_tokens, room)))
    assert ends == [False] * (len(ends) - 1) + [complete] if ends else not complete
