"""Each published behaviour happens when it is put in, with the numbers seen in the field; the
corrected engine does not show it; and the published managers themselves do, where a clone is named.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.books import audit_idle
from helpers.world import EOS, World

from minisgl_lite.llm import LLM
from minisgl_lite.scheduler.scheduler import Managers, Scheduler
from minisgl_lite.teaching.published import (
    PUBLISHED,
    published_managers,
    published_scheduler,
)
from tests.teaching.sides import MINISGL, WatchingEngine, make_side, minisgl


def each_published(*names: str) -> pytest.MarkDecorator:
    """The behaviours alone, with all the others, and mini-sglang itself."""
    return pytest.mark.parametrize("side", ["+".join(names), "all", MINISGL])


def error_of(world: World, at_most: int = 50) -> BaseException:
    """Turn until the scheduler raises; that error leaves its loop."""
    with pytest.raises((AssertionError, RuntimeError)) as caught:
        world.run(at_most)
    return caught.value


# --- stale rows (E01) ----------------------------------------------------------------------------


def two_equal_prompts(side: str) -> World:
    world = make_side(side, 8, 4, engine=WatchingEngine)
    world.add(0, range(1, 10), max_tokens=1)
    world.add(1, range(1, 10), max_tokens=3)
    world.step()
    return world


def then_a_third(world: World) -> None:
    """C takes the pages that went back; B goes on to its end."""
    world.add(2, range(20, 34), max_tokens=1)
    world.step()
    assert world.engine.page_table[7, :14:4].tolist() == [24, 28, 8, 12]
    world.run()


@each_published("stale-rows")
def test_stale_rows_point_at_freed_pages(side: str) -> None:
    world = two_equal_prompts(side)
    assert world.row(1, 9) == [12, 13, 14, 15, 16, 17, 18, 19, 20]
    assert world.free == [24, 28, 8, 12, 16]
    assert world.sizes == (0, 8)
    then_a_third(world)
    assert world.engine.bad_reads == [(1, "decode", 0), (1, "decode", 0)]


def test_the_corrected_row_points_at_the_cached_pages() -> None:
    world = two_equal_prompts("corrected")
    assert world.row(1, 9) == [0, 1, 2, 3, 4, 5, 6, 7, 20]
    assert world.free == [24, 28, 8, 12, 16]
    then_a_third(world)
    assert world.engine.bad_reads == []
    assert sorted(world.free) == [12, 16, 20]
    assert world.sizes == (20, 0)


@each_published("stale-rows")
def test_stale_rows_with_single_token_pages(side: str) -> None:
    world = make_side(side, 16, 1)
    world.add(0, [1, 2, 3, 4], max_tokens=1)
    world.add(1, [1, 2, 3, 4], max_tokens=3)
    world.step()
    assert world.row(1, 4) == [4, 5, 6, 7]


@pytest.mark.reference
def test_the_published_integrity_check_sees_no_stale_row() -> None:
    world = two_equal_prompts("minisgl")
    then_a_third(world)
    world.scheduler.run_when_idle()


def test_our_integrity_check_sees_it() -> None:
    world = two_equal_prompts("stale-rows")
    with pytest.raises(RuntimeError, match="slot 12 stands at position 0 of request 1"):
        world.cache.check_integrity(world.scheduler.live_reqs())


# --- late abort (E06, E07, E08) ------------------------------------------------------------------


def abort_in_the_last_step(side: str) -> World:
    world = make_side(side, 16, 1, loop="overlap", script=[7, EOS])
    world.add(0, [1, 2, 3], max_tokens=6)
    world.step(2)
    world.abort(0)
    return world


@each_published("late-abort")
def test_late_abort_releases_a_finished_request_twice(side: str) -> None:
    world = abort_in_the_last_step(side)
    error_of(world)
    rows = world.scheduler.table_manager._free_slots
    assert rows == [0, 1, 2, 3, 4, 5, 6, 7, 7]


def test_a_corrected_abort_in_the_last_step_releases_once() -> None:
    world = abort_in_the_last_step("corrected")
    world.run()
    audit_idle(world.scheduler)
    assert world.free_rows == 8
    assert sorted(world.free) == list(range(4, 16))
    assert world.sizes == (4, 0)
    assert world.replies == [(0, 7, False)]


def abort_in_the_prefill(side: str, num_pages: int, page_size: int) -> World:
    world = make_side(side, num_pages, page_size, loop="overlap")
    world.add(0, range(1, 6), max_tokens=6)
    world.step()
    world.abort(0)
    world.run()
    return world


@each_published("late-abort")
@pytest.mark.parametrize(("num_pages", "page_size", "protected"), [(16, 1, 5), (4, 4, 4)])
def test_late_abort_caches_freed_pages_again(
    side: str, num_pages: int, page_size: int, protected: int
) -> None:
    world = abort_in_the_prefill(side, num_pages, page_size)
    assert len(world.free) == num_pages
    assert world.sizes == (0, protected)
    assert world.replies == [(0, 7, False)], "a token is shown after the abort"
    with pytest.raises(RuntimeError):
        world.cache.check_integrity()


@pytest.mark.parametrize(("num_pages", "page_size", "free"), [(16, 1, 11), (4, 4, 3)])
def test_a_corrected_abort_in_the_prefill_waits_for_the_step(
    num_pages: int, page_size: int, free: int
) -> None:
    world = abort_in_the_prefill("corrected", num_pages, page_size)
    assert len(world.free) == free
    assert world.sizes == ((num_pages - free) * page_size, 0)
    assert world.replies == []
    audit_idle(world.scheduler)


@pytest.mark.parametrize(
    ("side", "shown"), [("corrected", 0), ("late-abort", 1), ("all", 1), ("minisgl", 1)]
)
def test_abort_right_after_the_last_chunk_was_launched(side: str, shown: int) -> None:
    if side == "minisgl":
        minisgl()
    world = make_side(side, 32, 1, loop="overlap", budget=5)
    world.add(0, range(1, 13), max_tokens=6)
    world.step(3)
    world.abort(0)
    world.run()
    assert len(world.replies) == shown


# --- token-wise admission (E22) ------------------------------------------------------------------


def two_that_need_two_pages_each(side: str) -> World:
    world = make_side(side, 3, 4)
    world.add(0, range(1, 6), max_tokens=1)
    world.add(1, range(11, 16), max_tokens=1)
    return world


@each_published("token-wise-admission")
def test_token_wise_admission_takes_two_requests_for_three_pages(side: str) -> None:
    world = two_that_need_two_pages_each(side)
    error_of(world)
    assert world.replies_of(0) in ([], [(-1, True)])
    assert world.free in ([0, 4, 8],), "asked for 4 pages of 3"


def test_corrected_admission_takes_one_after_the_other() -> None:
    world = two_that_need_two_pages_each("corrected")
    world.step()
    assert world.replies == [(0, 7, True)]
    world.step()
    assert world.replies == [(0, 7, True), (1, 7, True)]
    audit_idle(world.scheduler)


def test_token_wise_admission_is_whole_page_admission_for_single_token_pages() -> None:
    for side in ("corrected", "token-wise-admission"):
        world = make_side(side, 9, 1)
        world.add(0, range(1, 6), max_tokens=2)
        world.add(1, range(11, 14), max_tokens=1)
        world.step()
        assert [reply[0] for reply in world.replies] == [0], side


# --- early finish (E39, E48) ---------------------------------------------------------------------


def three_tokens(side: str, loop: str) -> list[tuple[int, bool]]:
    world = make_side(side, 16, 1, loop=loop)
    world.add(0, [1, 2, 3], max_tokens=3)
    world.run()
    return world.replies_of(0)


def ended_by_eos(side: str, loop: str) -> World:
    world = make_side(side, 16, 1, loop=loop, script=[7, EOS, 7])
    world.add(0, [1, 2, 3], max_tokens=8)
    world.run()
    return world


@each_published("early-finish")
def test_early_finish_is_said_a_token_early_under_overlap(side: str) -> None:
    assert three_tokens(side, "overlap") == [(7, False), (7, True), (7, True)]
    assert three_tokens(side, "normal") == [(7, False), (7, False), (7, True)]


@each_published("early-finish")
def test_early_finish_shows_a_token_after_the_end_of_sequence(side: str) -> None:
    overlapped = ended_by_eos(side, "overlap")
    assert overlapped.replies_of(0) == [(7, False), (EOS, True), (7, False)]
    assert overlapped.sizes == (5, 0)
    plain = ended_by_eos(side, "normal")
    assert plain.replies_of(0) == [(7, False), (EOS, True)]
    assert plain.sizes == (4, 0)


@pytest.mark.parametrize("loop", ["normal", "overlap", "late"])
def test_the_corrected_engine_says_finished_of_the_last_token(loop: str) -> None:
    assert three_tokens("corrected", loop) == [(7, False), (7, False), (7, True)]
    world = ended_by_eos("corrected", loop)
    assert world.replies_of(0) == [(7, False), (EOS, True)]
    assert world.sizes == ((4, 0) if loop == "normal" else (5, 0))


# --- set order (E44) -----------------------------------------------------------------------------


def decode_order(side: str, junk: list[Any]) -> list[int]:
    """The uids of the first decode batch of six requests, in a fresh engine."""
    world = make_side(side, 64, 1)
    for uid in range(6):
        world.add(uid, [uid, 1, 2], max_tokens=3)
        junk.append([object() for _ in range(uid * 37 % 11)])
    world.step()
    batch = world.scheduler.decode_manager.schedule_next_batch()
    junk.append(world.scheduler)
    return [req.uid for req in batch.reqs]


@each_published("set-order")
def test_set_order_differs_between_engines(side: str) -> None:
    junk: list[Any] = []
    orders = [decode_order(side, junk) for _ in range(20)]
    assert all(sorted(order) == list(range(6)) for order in orders)
    assert len(set(map(tuple, orders))) > 1


def test_the_corrected_order_is_that_of_arrival() -> None:
    junk: list[Any] = []
    assert all(decode_order("corrected", junk) == list(range(6)) for _ in range(20))


# --- cold partial hits ---------------------------------------------------------------------------


def evicted_after_a_partial_hit(side: str) -> list[int]:
    """[1 2 3 4] in slots 0..3 is older than [11 12]; a match uses its first half; then 4 go."""
    page_table = torch.zeros((1, 32), dtype=torch.int32)
    if side == "minisgl":
        module = minisgl()
        clock = iter(range(1, 100)).__next__
        with module.on_a_cpu(clock), module.current(1):
            return _evict(module.scheduler.CacheManager(8, 1, page_table, "radix").prefix_cache)
    names = [] if side == "corrected" else [side]
    manager = published_managers(*names).cache(8, 1, page_table, "radix")
    return _evict(manager.prefix_cache)


def _evict(cache: Any) -> list[int]:
    cache.insert_prefix(_ints(1, 2, 3, 4), _ints(0, 1, 2, 3))
    cache.insert_prefix(_ints(11, 12), _ints(4, 5))
    cache.match_prefix(_ints(1, 2, 50))
    return [*cache.evict(2).tolist(), *cache.evict(2).tolist()]


def _ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize("side", ["cold-partial-hits", MINISGL])
def test_cold_partial_hits_are_evicted_before_what_is_older_in_use(side: str) -> None:
    assert evicted_after_a_partial_hit(side) == [2, 3, 0, 1]


def test_a_corrected_partial_hit_counts_as_use() -> None:
    assert evicted_after_a_partial_hit("corrected") == [2, 3, 4, 5]


# --- row reuse (E47r) ----------------------------------------------------------------------------


def one_row_for_two(side: str, loop: str = "late") -> World:
    """A ends by eos while its next step is on a device that runs as late as the host allows."""
    script = {0: [7, EOS, 5], 1: [7]}
    world = make_side(side, 64, 1, loop=loop, rows=1, script=script, engine=WatchingEngine)
    world.add(0, [1, 2, 3], max_tokens=8)
    world.add(1, range(20, 30), max_tokens=2)
    world.run()
    return world


@each_published("row-reuse")
def test_row_reuse_mixes_the_ids_of_two_owners(side: str) -> None:
    fed = one_row_for_two(side).engine.fed
    assert fed[0] == [1, 2, 3, 7, EOS]
    assert fed[1][:10] == [20, 21, 22, 23, EOS, 5, 26, 27, 28, 29], "A's tokens in B's prompt"


def test_a_corrected_row_is_refilled_after_its_owners_last_step() -> None:
    fed = one_row_for_two("corrected").engine.fed
    assert fed[0] == [1, 2, 3, 7, EOS]
    assert fed[1] == [*range(20, 30), 7]


def test_row_reuse_needs_a_late_device() -> None:
    fed = one_row_for_two("row-reuse", loop="overlap").engine.fed
    assert fed[1] == [*range(20, 30), 7]


# --- putting in ----------------------------------------------------------------------------------


def test_no_name_gives_the_engine_as_it_is() -> None:
    assert published_managers() == Managers()
    assert make_side("corrected", 4, 1).scheduler.cache_manager.__class__ is Managers().cache


def test_all_seven_go_together_in_any_order() -> None:
    names = PUBLISHED.supported_names()
    assert len(names) == 7
    assert all(
        part is not own and issubclass(part, own)
        for part, own in zip(published_managers(*names), Managers(), strict=True)
    )
    for chosen in (names, names[::-1]):
        world = make_side("+".join(chosen), 16, 1, loop="overlap")
        world.add(0, [1, 2, 3], max_tokens=3)
        world.run()
        assert world.tokens_of(0) == [7, 7, 7]


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown published behaviour 'stale'; known: token-wise"):
        published_scheduler("stale")


def test_each_behaviour_says_where_it_comes_from() -> None:
    for name in PUBLISHED.supported_names():
        text = PUBLISHED[name].__doc__ or ""
        assert ".py, ``" in text, f"{name}: no published file and function named"


def test_a_real_model_runs_with_published_behaviours() -> None:
    made = published_scheduler("early-finish", "stale-rows", base=LLM)
    assert issubclass(made, LLM) and issubclass(made, Scheduler)
    with made("tiny", page_size=4, num_pages=16) as llm:
        (result,) = llm.generate([[1, 2, 3]])
    with LLM("tiny", page_size=4, num_pages=16) as llm:
        assert llm.generate([[1, 2, 3]]) == [result]
