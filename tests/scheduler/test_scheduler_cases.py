"""Faults that people met in engines of this kind, as small scenarios with their exact numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from helpers.books import audit, audit_idle
from helpers.world import EOS, LOOPS, World, make_world

from minisgl_lite.core import SamplingParams
from minisgl_lite.message import UserMsg

each_loop = pytest.mark.parametrize("loop", LOOPS)
overlapped = pytest.mark.parametrize("loop", ["overlap", "late"])
each_cache = pytest.mark.parametrize("cache", ["radix", "naive"])


def finish(world: World) -> None:
    world.run()
    audit_idle(world.scheduler)
    world.cache.check_integrity()


# --- stale rows ----------------------------------------------------------------------------------


def test_the_row_of_a_duplicate_is_pointed_at_the_cached_pages() -> None:
    w = make_world(8, 4)
    w.add(0, range(1, 10), max_tokens=1)
    w.add(1, range(1, 10), max_tokens=3)
    w.step()
    assert w.row(1, 9) == [0, 1, 2, 3, 4, 5, 6, 7, 20]
    assert w.free == [24, 28, 8, 12, 16]
    assert w.sizes == (0, 8)
    live = {page // 4 * 4 for page in w.row(1, 9)}
    assert live.isdisjoint(w.free)
    audit(w.scheduler)
    w.add(2, range(20, 34), max_tokens=1)
    w.step()
    assert w.extends[2] == [(0, 14)]
    assert {slot // 4 * 4 for slot in w.engine.page_table[7, :14].tolist()} == {24, 28, 8, 12}
    finish(w)
    assert sorted(w.free) == [12, 16, 20]
    assert w.sizes == (20, 0)
    assert w.replies_of(1) == [(7, False), (7, False), (7, True)]


def test_the_row_of_a_duplicate_is_pointed_anew_with_single_token_pages() -> None:
    w = make_world(16, 1)
    w.add(0, [1, 2, 3, 4], max_tokens=1)
    w.add(1, [1, 2, 3, 4], max_tokens=3)
    w.step()
    assert w.row(1, 4) == [0, 1, 2, 3]
    finish(w)


@each_loop
@pytest.mark.parametrize("page_size", [1, 2, 4])
@pytest.mark.parametrize("budget", [100, 5])
def test_a_duplicate_reads_its_own_prefix_to_the_end(
    loop: str, page_size: int, budget: int
) -> None:
    """Whoever takes the freed duplicate pages next, B goes on as if it were alone."""
    w = make_world(32 // page_size, page_size, loop=loop, budget=budget, script=None)
    alone = make_world(32 // page_size, page_size, script=None)
    alone.add(1, range(1, 10), max_tokens=6)
    alone.run()
    w.add(0, range(1, 10), max_tokens=1)
    w.add(1, range(1, 10), max_tokens=6)
    w.step()
    w.add(2, range(20, 31), max_tokens=2)
    w.run()
    assert w.tokens_of(1) == alone.tokens_of(1)
    assert len(w.tokens_of(2)) == 2
    audit_idle(w.scheduler)


@each_loop
def test_three_duplicates_of_one_prompt_keep_one_copy(loop: str) -> None:
    w = make_world(16, 2, loop=loop, script=None)
    for uid in range(3):
        w.add(uid, [1, 2, 3, 4, 5], max_tokens=1 + uid)
    while w.busy:
        w.step()
        audit(w.scheduler)
    audit_idle(w.scheduler)
    assert w.tokens_of(2)[:2] == w.tokens_of(1)
    assert w.tokens_of(1)[:1] == w.tokens_of(0)


# --- aborts --------------------------------------------------------------------------------------


@overlapped
def test_abort_while_the_last_step_is_in_flight_releases_once(loop: str) -> None:
    w = make_world(16, 1, loop=loop, script=[7, EOS])
    w.add(0, [1, 2, 3], max_tokens=6)
    w.step(2)
    w.abort(0)
    finish(w)
    assert sorted(w.free) == list(range(4, 16))
    assert w.sizes == (4, 0)
    assert w.free_rows == 8
    assert w.replies == [(0, 7, False)]


@overlapped
@pytest.mark.parametrize(
    ("page_size", "num_pages", "free", "evictable"),
    [(1, 16, 11, 5), (4, 4, 3, 4)],
)
def test_abort_while_the_prefill_is_in_flight(
    loop: str, page_size: int, num_pages: int, free: int, evictable: int
) -> None:
    w = make_world(num_pages, page_size, loop=loop)
    w.add(0, [1, 2, 3, 4, 5], max_tokens=6)
    w.step()
    w.abort(0)
    finish(w)
    assert len(w.free) == free
    if page_size == 4:
        assert sorted(w.free) == [4, 8, 12]
    assert w.sizes == (evictable, 0)
    assert w.free_rows == 8
    assert w.replies == []  # and nothing became visible after the abort


@overlapped
def test_abort_after_the_last_chunk_was_launched_shows_nothing(loop: str) -> None:
    w = make_world(16, 1, loop=loop, budget=5)
    w.add(0, range(1, 13), max_tokens=3)
    w.step(3)
    assert [extend for _, extend in w.extends[0]] == [5, 5, 2]
    w.abort(0)
    finish(w)
    assert w.replies == []


@overlapped
def test_abort_while_the_last_allowed_step_is_in_flight(loop: str) -> None:
    """Then the request is neither waiting nor running; only the launched batch still knows it."""
    w = make_world(16, 1, loop=loop)
    w.add(0, [1, 2, 3], max_tokens=2)
    w.step(2)
    assert w.replies == [(0, 7, False)] and not w.scheduler.decode_manager.runnable
    w.abort(0)
    finish(w)
    assert w.replies == [(0, 7, False)]
    assert w.sizes == (4, 0)


@each_loop
@each_cache
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("chunks", [1, 2])
def test_abort_between_chunks_returns_row_and_pages(
    loop: str, cache: str, page_size: int, chunks: int
) -> None:
    w = make_world(32 // page_size, page_size, loop=loop, budget=5, cache=cache)
    w.add(0, range(1, 13), max_tokens=3)
    w.add(1, [40, 41], max_tokens=2)
    w.step(chunks)
    w.abort(0)
    w.step()
    audit(w.scheduler)
    finish(w)
    assert w.replies == [(1, 7, False), (1, 7, True)]
    assert w.free_rows == 8


@each_loop
@pytest.mark.parametrize("when", range(1, 8))
@pytest.mark.parametrize("page_size", [1, 2, 4])
def test_abort_at_any_turn_leaves_the_books_balanced(loop: str, when: int, page_size: int) -> None:
    w = make_world(16 // page_size, page_size, loop=loop, script=[7, 7, 7, EOS])
    w.add(0, [1, 2, 3], max_tokens=6)
    w.add(1, [1, 2, 4], max_tokens=3)
    w.step(when)
    shown = len(w.replies_of(0))
    w.abort(0)
    while w.busy:
        w.step()
        audit(w.scheduler)
        w.cache.check_integrity(w.scheduler.live_reqs())
    audit_idle(w.scheduler)
    assert len(w.replies_of(0)) == shown
    assert w.tokens_of(1) == [7, 7, 7]


def test_abort_stops_a_long_request_and_unknown_uids_are_ignored() -> None:
    w = make_world(64, 1)
    w.add(0, [1, 2, 3], max_tokens=50)
    w.step(3)
    w.abort(0)
    assert w.run() <= 2
    assert len(w.replies_of(0)) <= 3
    assert w.free_rows == 8
    w.abort(0)
    w.abort(12345)
    w.step(2)
    assert len(w.replies_of(0)) <= 3
    audit_idle(w.scheduler)


@each_loop
def test_two_aborts_of_one_request_count_once(loop: str) -> None:
    w = make_world(16, 1, loop=loop)
    w.add(0, [1, 2, 3], max_tokens=5)
    w.step(2)
    w.abort(0)
    w.abort(0)
    w.step()
    w.abort(0)
    finish(w)


@each_loop
def test_abort_in_the_same_turn_as_the_request(loop: str) -> None:
    w = make_world(16, 1, loop=loop)
    w.add(0, [1, 2, 3], max_tokens=5)
    w.abort(0)
    finish(w)
    assert w.replies == [] and w.batches == []
    assert len(w.free) == 16


@each_loop
def test_abort_of_a_request_that_waits_for_a_row(loop: str) -> None:
    w = make_world(16, 1, loop=loop, rows=1)
    w.add(0, [1, 2, 3], max_tokens=3)
    w.add(1, [4, 5], max_tokens=3)
    w.step(2)
    w.abort(1)
    finish(w)
    assert w.replies == [(0, 7, False), (0, 7, False), (0, 7, True)]


@each_loop
def test_a_uid_can_be_used_again_once_its_request_is_released(loop: str) -> None:
    w = make_world(16, 1, loop=loop)
    w.add(0, [1, 2, 3], max_tokens=5)
    w.step(2)
    w.abort(0)
    w.run()
    before = len(w.replies)
    w.add(0, [5, 6], max_tokens=2)
    finish(w)
    assert w.replies[before:] == [(0, 7, False), (0, 7, True)]


@each_loop
def test_a_uid_that_is_still_live_is_refused(loop: str) -> None:
    w = make_world(16, 1, loop=loop)
    w.add(0, [1, 2, 3], max_tokens=4)
    w.step(2)
    w.add(0, [5, 6], max_tokens=2)
    finish(w)
    errors = [r for r in w.io.replies if r.next_token == -1]
    assert len(errors) == 1 and errors[0].finished and "0" in (errors[0].reason or "")
    assert [t for t in w.tokens_of(0) if t != -1] == [7] * 4


# --- eviction and integrity ----------------------------------------------------------------------


def test_eviction_returns_whole_aligned_pages() -> None:
    w = make_world(8, 4)
    w.add(0, range(1, 10), max_tokens=1)
    finish(w)
    assert sorted(w.free) == [8, 12, 16, 20, 24, 28]
    assert w.sizes == (8, 0)
    first = w.cache._allocate(6).tolist()
    assert w.free == []
    second = w.cache._allocate(1).tolist()
    assert second == [0]
    assert w.free == [4]
    assert w.sizes == (0, 0)
    pages = first + second + w.free
    assert all(page % 4 == 0 for page in pages) and len(set(pages)) == 8


@each_loop
def test_eviction_at_every_step(loop: str) -> None:
    """A pool that holds one request only: each new one evicts what the last one left."""
    w = make_world(3, 4, loop=loop, script=None)
    for uid in range(8):
        w.add(uid, [uid * 20 + i for i in range(7)], max_tokens=4)
    while w.busy:
        w.step()
        audit(w.scheduler)
    audit_idle(w.scheduler)
    for uid in range(8):
        alone = make_world(3, 4, script=None)
        alone.add(uid, [uid * 20 + i for i in range(7)], max_tokens=4)
        alone.run()
        assert w.tokens_of(uid) == alone.tokens_of(uid)


@pytest.mark.parametrize(
    ("cache", "evictable", "free"), [("radix", 8, {8, 12, 16, 20, 24, 28}), ("naive", 0, None)]
)
@each_loop
def test_the_tail_page_of_a_finished_request_comes_back(
    loop: str, cache: str, evictable: int, free: set[int] | None
) -> None:
    w = make_world(8, 4, loop=loop, cache=cache)
    w.add(0, range(1, 10), max_tokens=3)
    finish(w)
    assert set(w.free) == (free or set(range(0, 32, 4)))
    assert w.sizes == (evictable, 0)


# --- admission -----------------------------------------------------------------------------------


@each_loop
@each_cache
def test_admission_counts_whole_pages(loop: str, cache: str) -> None:
    w = make_world(3, 4, loop=loop, cache=cache)
    w.add(0, [1, 2, 3, 4, 5], max_tokens=1)
    w.add(1, [11, 12, 13, 14, 15], max_tokens=1)
    w.step()
    assert w.batches == [("prefill", [0])]
    if loop == "normal":
        w.step()
        assert w.batches == [("prefill", [0]), ("prefill", [1])]
    finish(w)
    assert w.tokens_of(0) == w.tokens_of(1) == [7]


@each_loop
@pytest.mark.parametrize("page_size", [1, 4])
def test_a_request_that_can_never_fit_gets_one_error(loop: str, page_size: int) -> None:
    w = make_world(16 // page_size, page_size, loop=loop)
    w.add(0, range(1, 21), max_tokens=1)
    w.add(1, [1, 2], max_tokens=2)
    assert w.run() <= 5
    assert "20" in w.error_of(0) and ("16" in w.error_of(0) or "15" in w.error_of(0))
    assert w.replies_of(1) == [(7, False), (7, True)]
    audit_idle(w.scheduler)


@each_loop
def test_a_prompt_that_fills_the_pool_to_its_last_token(loop: str) -> None:
    """15 tokens and one output fit into 16 slots; 16 tokens leave no room for an output."""
    w = make_world(16, 1, loop=loop)
    w.add(0, range(1, 16), max_tokens=5)
    w.add(1, range(1, 17), max_tokens=1)
    finish(w)
    assert w.replies_of(0) == [(7, True)]
    assert "16" in w.error_of(1)


@each_loop
def test_an_empty_prompt_is_an_error_of_its_own(loop: str) -> None:
    w = make_world(16, 1, loop=loop)
    w.add(0, [], max_tokens=2)
    w.add(1, [1, 2], max_tokens=2)
    finish(w)
    assert w.error_of(0)
    assert w.replies_of(1) == [(7, False), (7, True)]


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"max_tokens": 0}, "0"),
        ({"max_tokens": -3}, "-3"),
        ({"temperature": -0.5}, "-0.5"),
        ({"temperature": float("nan")}, "nan"),
        ({"top_k": 0}, "0"),
        ({"top_p": 0.0}, "0.0"),
        ({"top_p": 1.5}, "1.5"),
        ({"seed": -1}, "-1"),
    ],
)
def test_bad_parameters_are_an_error_of_their_own(params: dict, named: str) -> None:
    w = make_world(16, 1)
    w.add(0, [1, 2], **params)
    w.add(1, [1, 2], max_tokens=2)
    finish(w)
    assert named in w.error_of(0)
    assert w.replies_of(1) == [(7, False), (7, True)]


@pytest.mark.parametrize("token", [-1, 100, 2**31 - 1])
def test_token_ids_outside_the_vocabulary_are_refused(token: int) -> None:
    w = make_world(16, 1, vocab_size=100)
    w.add(0, [1, token, 2], max_tokens=2)
    w.add(1, [0, 99], max_tokens=2)
    finish(w)
    assert str(token) in w.error_of(0) and "100" in w.error_of(0)
    assert len(w.replies_of(1)) == 2


# --- hits ----------------------------------------------------------------------------------------


@each_loop
@pytest.mark.parametrize(
    ("page_size", "cached", "free_pages"),
    [(1, 7, 24), (4, 4, 6)],
)
def test_a_prompt_that_is_cached_whole_computes_its_last_token(
    loop: str, page_size: int, cached: int, free_pages: int
) -> None:
    w = make_world(32 // page_size, page_size, loop=loop)
    for uid in (0, 1):
        w.add(uid, range(1, 9), max_tokens=1)
        w.run()
    assert w.extends == {0: [(0, 8)], 1: [(cached, 8 - cached)]}
    assert len(w.free) == free_pages
    assert w.sizes == (8, 0)
    audit_idle(w.scheduler)


@each_loop
@pytest.mark.parametrize(("page_size", "cached"), [(1, 7), (4, 4)])
def test_positions_after_a_hit_start_at_the_cached_length(
    loop: str, page_size: int, cached: int
) -> None:
    w = make_world(32 // page_size, page_size, loop=loop, script=None)
    positions: list[list[int]] = []
    launch = w.engine.forward_batch
    w.engine.forward_batch = lambda batch, args: (
        positions.append(batch.positions.tolist()),
        launch(batch, args),
    )[1]
    w.add(0, range(1, 9), max_tokens=4)
    w.run()
    cold = w.tokens_of(0)
    seen = len(positions)
    w.add(1, range(1, 9), max_tokens=4)
    w.run()
    assert positions[0] == list(range(8))
    assert positions[seen] == list(range(cached, 8))
    assert w.tokens_of(1) == cold


@each_loop
@pytest.mark.parametrize("page_size", [1, 4])
def test_two_identical_prompts_in_one_batch_are_both_computed(loop: str, page_size: int) -> None:
    w = make_world(64 // page_size, page_size, loop=loop, script=None)
    for uid in (0, 1):
        w.add(uid, range(1, 9), max_tokens=4)
    w.run()
    assert w.extends == {0: [(0, 8)], 1: [(0, 8)]}
    assert w.tokens_of(0) == w.tokens_of(1)
    audit_idle(w.scheduler)


@each_loop
def test_a_second_turn_of_a_dialogue_reuses_what_was_generated(loop: str) -> None:
    w = make_world(16, 4, loop=loop, script=None)
    w.add(0, range(1, 7), max_tokens=4)
    w.run()
    history = [*range(1, 7), *w.tokens_of(0)]
    assert len(history) == 10
    w.add(1, [*history, 50, 51], max_tokens=2)
    w.run()
    assert w.extends[1] == [(8, 4)]
    alone = make_world(16, 4, cache="naive", script=None)
    alone.add(1, [*history, 50, 51], max_tokens=2)
    alone.run()
    assert w.tokens_of(1) == alone.tokens_of(1)


# --- chunks, padding, the dummy ------------------------------------------------------------------


@each_loop
def test_what_is_sampled_from_a_chunk_does_not_overwrite_the_prompt(loop: str) -> None:
    w = make_world(16, 1, loop=loop, budget=6, script=50)
    w.add(0, range(1, 11), max_tokens=2)
    w.step()
    if loop == "normal":
        (pending,) = w.scheduler.prefill_manager.pending_list
        row = w.scheduler.token_pool[pending.chunked_req.table_idx]
        assert row[:6].tolist() == [1, 2, 3, 4, 5, 6]
        assert int(row[6]) != 50
        assert int(row[-1]) == 50  # scratch
    fed = feed_of(w)
    w.run()
    if loop != "late":
        assert fed[0] == [7, 8, 9, 10]
    assert w.tokens_of(0) == [50, 50]


def feed_of(w: World) -> list[list[int]]:
    """Ids the model is given from now on, by batch (where a step runs at launch)."""
    fed: list[list[int]] = []
    launch = w.engine.forward_batch

    def forward_batch(batch, args):
        out = launch(batch, args)
        if hasattr(batch, "input_ids"):
            fed.append(batch.input_ids.tolist())
        return out

    w.engine.forward_batch = forward_batch
    return fed


@pytest.mark.parametrize(
    ("sizes", "reqs", "padded"),
    [((), 3, 3), ((4,), 5, 5), ((4,), 3, 4), ((1, 2, 4), 1, 1), ((8, 2), 3, 8)],
)
@each_loop
def test_decode_batches_are_padded_to_the_next_captured_size(
    loop: str, sizes: Sequence[int], reqs: int, padded: int
) -> None:
    w = make_world(64, 2, loop=loop, graph_bs=sizes, script=None)
    plain = make_world(64, 2, loop=loop, script=None)
    seen: list[tuple[str, int, list[int]]] = []
    launch = w.engine.forward_batch

    def forward_batch(batch, args):
        seen.append((batch.phase, batch.padded_size, [r.uid for r in batch.padded_reqs]))
        assert len(batch.out_loc) == len(batch.positions)
        return launch(batch, args)

    w.engine.forward_batch = forward_batch
    for world in (w, plain):
        for uid in range(reqs):
            world.add(uid, [uid, 5, 6], max_tokens=3)
        world.run()
        audit_idle(world.scheduler)
    assert w.replies == plain.replies
    assert seen[0] == ("prefill", reqs, list(range(reqs)))
    assert seen[1] == ("decode", padded, [*range(reqs), *[-1] * (padded - reqs)])


@pytest.mark.parametrize("sizes", [(), (1, 2, 4, 8)])
@each_loop
def test_the_dummys_ids_stay_zero_and_every_id_is_in_the_vocabulary(
    loop: str, sizes: Sequence[int]
) -> None:
    w = make_world(64, 1, loop=loop, graph_bs=sizes, vocab_size=100, rows=8)
    dummy = w.scheduler.token_pool[8]
    assert (dummy == 0).all()
    fed: list[torch.Tensor] = []
    run = w.engine._run
    w.engine._run = lambda batch, *rest: (fed.append(batch.input_ids.clone()), run(batch, *rest))[1]
    for uid in range(40):
        w.add(uid, [uid + 1, uid + 2, uid + 3], max_tokens=1 + uid % 7)
    w.run()
    assert len(fed) > 20
    assert all(((ids >= 0) & (ids < 100)).all() for ids in fed)
    assert (dummy == 0).all()
    assert (w.engine.page_table[8] == 64).all()
    finish(w)


# --- what is said, and when ----------------------------------------------------------------------


@pytest.mark.parametrize(("loop", "evictable"), [("normal", 4), ("overlap", 5), ("late", 5)])
def test_no_token_is_shown_after_the_end_of_sequence(loop: str, evictable: int) -> None:
    """Under overlap the step after the end runs; only its token is dropped."""
    w = make_world(16, 1, loop=loop, script=[7, EOS, 7])
    w.add(0, [1, 2, 3], max_tokens=8)
    finish(w)
    assert w.replies == [(0, 7, False), (0, EOS, True)]
    assert w.reasons_of(0) == [None, "stop"]
    assert w.sizes == (evictable, 0)


@each_loop
def test_several_ends_of_sequence_and_ignoring_them(loop: str) -> None:
    w = make_world(64, 1, loop=loop, eos=(5, 6), script={0: [7, 5, 7], 1: [7, 6, 7], 2: [7, 5, 6]})
    w.add(0, [1], max_tokens=8)
    w.add(1, [2], max_tokens=8)
    w.add(2, [3], max_tokens=3, ignore_eos=True)
    finish(w)
    assert w.replies_of(0) == [(7, False), (5, True)]
    assert w.replies_of(1) == [(7, False), (6, True)]
    assert w.replies_of(2) == [(7, False), (5, False), (6, True)]
    assert [w.reasons_of(uid)[-1] for uid in range(3)] == ["stop", "stop", "length"]


@each_loop
@pytest.mark.parametrize("max_tokens", [1, 2, 3])
def test_finished_is_said_of_the_last_token(loop: str, max_tokens: int) -> None:
    w = make_world(16, 1, loop=loop)
    w.add(0, [1, 2, 3], max_tokens=max_tokens)
    finish(w)
    assert w.replies_of(0) == [(7, False)] * (max_tokens - 1) + [(7, True)]
    assert w.reasons_of(0) == [None] * (max_tokens - 1) + ["length"]


@each_loop
def test_an_end_of_sequence_as_the_very_last_token_is_a_stop(loop: str) -> None:
    w = make_world(16, 1, loop=loop, script=[7, EOS])
    w.add(0, [1, 2, 3], max_tokens=2)
    finish(w)
    assert w.replies_of(0) == [(7, False), (EOS, True)]
    assert w.reasons_of(0) == [None, "stop"]


def test_decode_batches_keep_the_order_of_arrival() -> None:
    junk = []
    for trial in range(20):
        w = make_world(64, 1)
        for uid in range(6):
            junk.append([object() for _ in range(trial * 7 % 13)])
            w.add(uid, [uid, 1], max_tokens=3)
        w.run()
        assert [uids for phase, uids in w.batches if phase == "decode"] == [list(range(6))] * 2


@each_loop
def test_shared_sampling_params_are_not_changed(loop: str) -> None:
    w = make_world(64, 1, loop=loop, max_seq_len=32)
    params = SamplingParams(max_tokens=16)
    for uid, n in ((0, 30), (1, 4)):
        ids = torch.arange(1, n + 1, dtype=torch.int32)
        w.io.send(UserMsg(uid, ids, params))
    finish(w)
    assert (len(w.tokens_of(0)), len(w.tokens_of(1))) == (2, 16)
    assert params == SamplingParams(max_tokens=16)


# --- row reuse under overlap ---------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("budget", [100, 4])
def test_a_freed_row_is_not_refilled_under_a_step_in_flight(
    loop: str, page_size: int, budget: int
) -> None:
    w = make_world(
        64 // page_size, page_size, loop=loop, rows=1, budget=budget, script={0: [7, EOS], 1: [7]}
    )
    fed: dict[int, list[int]] = {0: [], 1: []}
    run = w.engine._run

    def watched(batch, outputs, tokens):
        at = 0
        for req, device_len in outputs:
            count = device_len - int(batch.positions[at])
            fed[req.uid] += batch.input_ids[at : at + count].tolist()
            at += count
        run(batch, outputs, tokens)

    w.engine._run = watched
    w.add(0, [1, 2, 3], max_tokens=8)
    w.add(1, range(20, 30), max_tokens=2)
    finish(w)
    assert fed[0][:4] == [1, 2, 3, 7]
    assert fed[0][4:] in ([], [EOS])  # the extra step, if it ran, was fed A's own last token
    assert fed[1] == [*range(20, 30), 7]
    for ids in ([1, 2, 3, 7, EOS], [*range(20, 30), 7]):
        assert_cached_keys_hold_their_own_values(w, ids)


def assert_cached_keys_hold_their_own_values(w: World, ids: list[int]) -> None:
    """V of the made-up model is the token's id: what is cached under ids was computed from them."""
    handle = w.cache.prefix_cache.match_prefix(torch.tensor(ids, dtype=torch.int32)).cuda_handle
    slots = handle.get_matched_indices().long()
    values = w.engine.kv_cache.v_cache(0).reshape(-1)[slots]
    assert values.tolist() == [float(i) for i in ids[: handle.cached_len]]


# --- order of pages and rows ---------------------------------------------------------------------


def test_pages_come_back_in_the_order_of_release() -> None:
    """Duplicates before the tail, request by request; the queue grows once, after the batch."""
    w = make_world(12, 2)
    w.add(0, [1, 2, 3], max_tokens=1)
    w.add(1, [1, 2, 4], max_tokens=1)
    w.add(2, [5], max_tokens=1)
    w.step()
    # pages 0 2 | 4 6 | 8; request 0 keeps page 0 and frees 2; 1 frees its duplicate 4, then 6
    assert w.free == [10, 12, 14, 16, 18, 20, 22, 2, 4, 6, 8]


def test_rows_are_taken_highest_first_and_last_freed_first() -> None:
    w = make_world(64, 1, rows=3)
    for uid, n in enumerate((1, 2, 3)):
        w.add(uid, [uid + 1], max_tokens=n)
    w.step()
    assert {uid: w.live(uid).table_idx for uid in (1, 2)} == {1: 1, 2: 0}
    w.add(3, [9], max_tokens=9)
    w.step()
    assert w.live(3).table_idx == 2
    w.step()
    w.add(4, [8], max_tokens=9)
    w.step()
    assert w.live(4).table_idx in (0, 1)
