"""The bound is what it says it is."""

from __future__ import annotations

from collections import Counter

import pytest

from exhaustive.naming import Shape, no_agreement
from exhaustive.play import make_cast, play
from exhaustive.worlds import (
    COUNTED,
    WORLDS,
    Block,
    Setting,
    aborts,
    agreements,
    arrivals,
    blocks,
    settings,
)


def test_each_world_has_its_requests_in_each_setting() -> None:
    found = Counter(block.setting.world for block in blocks())
    assert found == {
        # pairs or triples of requests, times P, pools, loops and caches
        "a": (4 * (1 + 2 + 3 + 3)) ** 2 * 2 * 3 * 2 * 2,
        "b": (4 * 3) ** 2 * 1 * 3 * 2 * 2,
        "c": (4 * 3) ** 2 * 3 * 3 * 2 * 2,
        "d": (3 * 2) ** 3 * 3 * 3 * 2 * 2,
        "e": (2 * (1 + 2 + 2)) ** 2 * 2 * 3 * 2 * 2,
    }
    assert len(set(blocks())) == len(blocks())


def test_a_world_without_aborts_has_as_many_runs_as_it_has_streams() -> None:
    world = [block for block in blocks() if block.setting.world == "d"]
    shown = {(b.shapes, b.setting.overlap, b.setting.cache): b for b in world}
    streams = {key: len(list(agreements(b))) * 10 for key, b in shown.items()}
    assert sum(streams.values()) * 9 == COUNTED["d"]  # three P, three pools
    assert sum(COUNTED.values()) > 2_200_000


def test_ends_are_by_length_and_by_a_stop_at_each_output() -> None:
    ends = {(s.max_tokens, s.stop) for s in WORLDS["a"].shapes()}
    assert ends == {(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)}


def test_pools_begin_with_the_fewest_pages_that_hold_the_longest_request() -> None:
    shapes = (Shape(1, 1), Shape(4, 3))
    sizes = {more: Setting("a", 2, more, "normal", "radix").num_pages(shapes) for more in (0, 1, 2)}
    assert sizes == {0: 4, 1: 5, 2: 6}


@pytest.mark.parametrize("world", ["a", "b", "c"])
def test_second_request_comes_at_any_turn_until_the_first_alone_is_at_rest(world: str) -> None:
    for setting in settings(WORLDS[world]):
        if setting.more_pages or setting.cache == "radix":
            continue
        for shape in WORLDS[world].shapes():
            _, tokens = no_agreement((shape,))
            outcome = play(setting, (shape,), make_cast((shape,), tokens), (0,))
            block = Block(setting, (shape, Shape(1, 1)))
            assert list(arrivals(block)) == [(0, turn) for turn in range(outcome.turns + 1)]


def test_three_requests_come_in_order_at_turns_0_to_3() -> None:
    block = next(block for block in blocks() if block.setting.world == "d")
    expected = [(0, b, c) for b in range(4) for c in range(b, 4)]
    assert list(arrivals(block)) == expected


def test_each_request_is_aborted_at_each_turn_of_its_life_and_just_after() -> None:
    shapes = (Shape(1, 1), Shape(2, 3, 2))
    for loop, after in (("normal", 1), ("overlap", 2)):
        block = Block(Setting("a", 1, 2, loop, "naive"), shapes)
        ((_, tokens),) = agreements(block)
        ended = play(block.setting, shapes, make_cast(shapes, tokens), (0, 1)).ended
        turns: dict[int, list[int]] = {0: [], 1: []}
        for abort in aborts(block, (0, 1), ended):
            turns[abort.uid].append(abort.turn)
        assert turns[0] == list(range(0, ended[0] + after + 1))
        assert turns[1] == list(range(1, ended[1] + after + 1))


def test_without_aborts_there_are_none() -> None:
    block = next(block for block in blocks() if block.setting.world == "d")
    assert not list(aborts(block, (0, 0, 0), [1, 1, 1]))
