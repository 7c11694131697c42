"""No stream of requests, aborts or tiny pools makes a request read a wrong slot or lose a page."""

from __future__ import annotations

import os

import pytest
from helpers.reading import STOP, alone
from helpers.streams import ODD_PAGE_SIZES, draw, play

CI_STREAMS = 300
FUZZ_STREAMS = int(os.environ.get("MINISGL_LITE_FUZZ", "5000"))
CHUNK = 20


def play_all(first: int, count: int) -> None:
    for seed in range(first, first + count):
        try:
            play(draw(seed))
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error}\n{draw(seed)}") from error


@pytest.mark.parametrize("first", range(0, CI_STREAMS, CHUNK))
def test_every_request_says_what_it_says_alone(first: int) -> None:
    play_all(first, CHUNK)


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_odd_pages_are_no_exception(first: int) -> None:
    """Pages of 3 tokens share no factor with anything; of 48 and 256 are larger than a request."""
    for seed in range(first, first + 10):
        play(draw(seed, ODD_PAGE_SIZES))


@pytest.mark.fuzz
def test_fuzz() -> None:
    play_all(CI_STREAMS, FUZZ_STREAMS)
    print(f"{FUZZ_STREAMS} random streams, no failure")


def test_the_streams_cover_what_they_are_meant_to() -> None:
    """All loops, caches and page sizes; chunks, padding, aborts, evictions and ends all happen."""
    streams = [draw(seed) for seed in range(CI_STREAMS)]
    assert {(s.loop, s.cache, s.page_size) for s in streams} == {
        (loop, cache, page_size)
        for loop in ("normal", "overlap", "late")
        for cache in ("radix", "naive")
        for page_size in (1, 2, 4, 16)
    }
    assert sum(bool(s.aborts) for s in streams) > 100
    assert sum(bool(s.graph_bs) for s in streams) > 100
    chunked = [s for s in streams if any(len(p) > s.budget for _, _, p, _ in s.arrivals)]
    assert len(chunked) > 100
    answers = [alone(prompt, n) for s in streams for _, _, prompt, n in s.arrivals]
    assert sum(said[-1] == STOP for said in answers) > 500
