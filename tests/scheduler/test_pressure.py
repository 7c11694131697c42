"""Nothing is lost when everything is short: pages, rows, budget, all at once and for long."""

from __future__ import annotations

import gc
import random
import tracemalloc

import pytest
from helpers.books import audit_idle
from helpers.reading import STOP, ReadingEngine, alone
from helpers.world import LOOPS, World, make_world

each_loop = pytest.mark.parametrize("loop", LOOPS)


def crowd(world: World, count: int, seed: int = 0) -> dict[int, list[int]]:
    """`count` requests at once, most of them over a few stems; what each says alone."""
    rng = random.Random(seed)
    stems = [[rng.randrange(STOP) for _ in range(20)] for _ in range(6)]
    want = {}
    for uid in range(count):
        prompt = [*rng.choice(stems)[: rng.randint(1, 20)], rng.randrange(STOP)]
        max_tokens = rng.randint(1, 6)
        world.add(uid, prompt, max_tokens)
        want[uid] = alone(prompt, max_tokens)
    return want


def make_crowded(loop: str, page_size: int = 2, num_pages: int = 64, rows: int = 4) -> World:
    return make_world(
        num_pages, page_size, loop=loop, rows=rows, budget=7, eos=STOP, engine=ReadingEngine
    )


@each_loop
def test_hundreds_of_requests_through_64_pages_are_all_answered(loop: str) -> None:
    w = make_crowded(loop)
    want = crowd(w, 300)
    w.run(at_most=10_000)
    assert not w.engine.wrong_reads
    assert {uid: w.tokens_of(uid) for uid in range(0, 300, 37)} == {
        uid: want[uid] for uid in range(0, 300, 37)
    }
    assert sum(finished for _, _, finished in w.replies) == 300
    audit_idle(w.scheduler)


@pytest.mark.fuzz
@each_loop
def test_ten_thousand_requests_through_64_pages_are_all_answered(loop: str) -> None:
    w = make_crowded(loop)
    want = crowd(w, 10_000)
    w.run(at_most=100_000)
    said: dict[int, list[int]] = {}
    for uid, token, _ in w.replies:
        said.setdefault(uid, []).append(token)
    assert said == want
    audit_idle(w.scheduler)


@each_loop
def test_none_starves(loop: str) -> None:
    """First tokens come in order of arrival, however large or small the requests are."""
    w = make_crowded(loop, num_pages=16)
    crowd(w, 60)
    w.run()
    firsts = list(dict.fromkeys(uid for uid, _, _ in w.replies))
    assert firsts == sorted(firsts)


@each_loop
def test_one_row_and_one_request_at_a_time(loop: str) -> None:
    w = make_crowded(loop, num_pages=14, rows=1)
    want = crowd(w, 50)
    w.run()
    assert {uid: w.tokens_of(uid) for uid in want} == want
    audit_idle(w.scheduler)


def test_memory_stays_flat() -> None:
    """After the first crowd nothing grows with the number of requests served."""
    w = make_crowded("overlap")

    def serve(seed: int) -> None:
        crowd(w, 25, seed)
        w.run()
        w.io.replies.clear()
        w.batches.clear()
        w.extends.clear()

    def traced() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        for seed in range(5):  # until the tree is full
            serve(seed)
        before = traced()
        for seed in range(5, 10):
            serve(seed)
        grown = traced() - before
    finally:
        tracemalloc.stop()
    assert grown < 30_000, f"{grown} bytes more after 125 requests"
