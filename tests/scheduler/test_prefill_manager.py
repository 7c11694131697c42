from __future__ import annotations

import pytest
import torch
from helpers.managers import Managers, ints, make_managers, uids

from minisgl_lite.core import Req
from minisgl_lite.scheduler.prefill import ChunkedReq


def lengths(req: Req) -> tuple[int, int, int]:
    return req.cached_len, req.extend_len, req.max_device_len


def finish_one(m: Managers, ids: list[int]) -> None:
    """Run a request alone to its end, so that its prefix is cached."""
    m.add(99, ids, max_tokens=1)
    m.run(m.schedule())


# --- order and budget ----------------------------------------------------------------------------


def test_first_come_first_served() -> None:
    m = make_managers(16, 4)
    for uid in (3, 1, 2):
        m.add(uid, [uid] * 4)
    assert uids(m.schedule()) == [3, 1, 2]
    assert not m.prefill.runnable


def test_an_empty_queue_gives_no_batch() -> None:
    m = make_managers(16, 4)
    assert m.prefill.schedule_next_batch(100) is None
    assert m.decode.schedule_next_batch() is None


def test_the_first_refusal_ends_the_batch() -> None:
    """A small request does not overtake a large one that must wait."""
    m = make_managers(4, 4)
    m.add(0, [1] * 4, max_tokens=4)
    m.add(1, [2] * 8, max_tokens=4)
    m.add(2, [3] * 2, max_tokens=1)
    assert uids(m.schedule()) == [0]
    assert [p.uid for p in m.prefill.pending_list] == [1, 2]


def test_without_a_free_row_nothing_is_matched_or_locked() -> None:
    """A match ticks the clock of the tree, so a refusal for want of a row comes first."""
    m = make_managers(16, 2, rows=1)
    finish_one(m, [1, 2, 3, 4])
    m.add(0, [9, 9, 9], max_tokens=4)
    m.run(m.schedule())
    clock = {n.uuid: n.timestamp for n in m.cache.prefix_cache.root_node.children.values()}
    m.add(1, [1, 2, 3, 4], max_tokens=1)
    assert m.prefill.schedule_next_batch(100) is None
    assert clock == {n.uuid: n.timestamp for n in m.cache.prefix_cache.root_node.children.values()}


# --- what admission writes -----------------------------------------------------------------------


def test_matched_ids_and_slots_and_new_ids_go_to_the_row() -> None:
    m = make_managers(16, 2)
    finish_one(m, [1, 2, 3, 4, 5])
    m.table.page_table.zero_()
    m.table.token_pool.zero_()
    m.add(0, [1, 2, 3, 4, 6, 7], max_tokens=2)
    (req,) = m.schedule().reqs
    assert lengths(req) == (4, 2, 8)
    assert req.table_idx == 7
    assert m.table.token_pool[7, :7].tolist() == [1, 2, 3, 4, 6, 7, 0]
    assert m.table.page_table[7, :6].tolist() == [0, 1, 2, 3, 0, 0]  # new pages come later
    assert tuple(m.cache.prefix_cache.size_info) == (0, 4)
    assert req.input_ids.tolist() == [1, 2, 3, 4, 6, 7]
    assert (m.table.token_pool[:7] == 0).all() and (m.table.page_table[:7] == 0).all()


def test_the_callers_ids_are_not_changed() -> None:
    m = make_managers(16, 2)
    ids = ints([1, 2, 3])
    from minisgl_lite.core import SamplingParams
    from minisgl_lite.message import UserMsg

    params = SamplingParams(max_tokens=3)
    m.prefill.add_one_req(UserMsg(0, ids, params))
    m.run(m.schedule())
    m.run(m.schedule())
    assert ids.tolist() == [1, 2, 3] and params == SamplingParams(max_tokens=3)


def test_the_prefix_of_an_admitted_request_cannot_be_evicted() -> None:
    m = make_managers(4, 4)
    finish_one(m, list(range(1, 10)))  # two pages cached, two free
    m.add(0, [*range(1, 9), 50], max_tokens=1)
    (req,) = m.schedule().reqs
    assert req.cached_len == 8
    assert tuple(m.cache.prefix_cache.size_info) == (0, 8)
    with pytest.raises(RuntimeError):
        m.cache._allocate(3)


# --- admission in whole pages --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page_size", "num_pages", "prompt", "output", "admitted"),
    [
        (4, 2, 5, 3, True),  # 8 tokens are two pages
        (4, 2, 5, 4, False),  # 9 tokens are three
        (4, 2, 8, 1, False),
        (1, 9, 5, 4, True),
        (1, 8, 5, 4, False),
        (16, 1, 1, 15, True),
    ],
)
def test_need_is_counted_in_whole_pages(
    page_size: int, num_pages: int, prompt: int, output: int, admitted: bool
) -> None:
    m = make_managers(num_pages, page_size)
    m.add(0, list(range(prompt)), max_tokens=output)
    assert uids(m.schedule()) == ([0] if admitted else [])


def test_two_requests_whose_tokens_fit_but_pages_do_not() -> None:
    m = make_managers(3, 4)
    m.add(0, [1, 2, 3, 4, 5])
    m.add(1, [11, 12, 13, 14, 15])
    batch = m.schedule()
    assert uids(batch) == [0]
    m.run(batch)
    batch = m.schedule()
    assert uids(batch) == [1]
    m.run(batch)
    m.cache.check_integrity()


def test_a_running_request_reserves_the_pages_it_will_still_ask_for() -> None:
    m = make_managers(4, 4)
    m.add(0, [1, 2, 3], max_tokens=6)  # 8 of 9 tokens are written: two pages, one taken so far
    m.run(m.schedule())
    assert m.decode.inflight_tokens == 4
    m.add(1, [5] * 4, max_tokens=4)  # two pages
    m.add(2, [6], max_tokens=1)
    assert m.cache.available_size == 12
    assert uids(m.prefill.schedule_next_batch(100)) == [1]


def test_locking_makes_less_available_so_the_need_is_compared_again() -> None:
    """Before the lock the cached prefix counts as evictable and the request seems to fit."""
    m = make_managers(4, 4)
    finish_one(m, list(range(1, 10)))
    m.add(5, [30] * 3, max_tokens=5)
    m.run(m.schedule())  # takes one page and reserves another
    assert m.cache.available_size - m.decode.inflight_tokens == 8
    m.add(0, [*range(1, 9), 50], max_tokens=1)  # matches 8, needs one more page
    before = tuple(m.cache.prefix_cache.size_info)
    assert m.prefill.schedule_next_batch(100) is None
    assert tuple(m.cache.prefix_cache.size_info) == before  # unlocked again
    assert m.table.available_size == 7
    assert [p.uid for p in m.prefill.pending_list] == [0]


def test_requests_of_one_batch_reserve_for_each_other() -> None:
    m = make_managers(6, 2)
    for uid in range(4):
        m.add(uid, [uid] * 3, max_tokens=1)
    assert uids(m.schedule()) == [0, 1, 2]


def test_a_cached_prefix_is_not_asked_for_twice() -> None:
    m = make_managers(3, 4)
    finish_one(m, list(range(1, 10)))
    m.add(0, [*range(1, 9), 50, 51], max_tokens=2)
    assert uids(m.schedule()) == [0]


# --- chunks --------------------------------------------------------------------------------------


def test_a_long_prompt_is_cut_by_the_budget() -> None:
    m = make_managers(16, 4)
    m.add(0, list(range(1, 11)), max_tokens=2)
    seen = []
    for _ in range(3):
        batch = m.prefill.schedule_next_batch(4)
        (req,) = batch.reqs
        seen.append((type(req), lengths(req), req.table_idx, req.input_ids.tolist()))
        m.run(batch)
    ids = list(range(1, 11))
    assert seen == [
        (ChunkedReq, (0, 4, 6), 7, ids[:4]),
        (ChunkedReq, (4, 4, 10), 7, ids[:8]),
        (Req, (8, 2, 12), 7, ids),
    ]
    assert not m.prefill.runnable and m.decode.runnable


def test_a_chunk_is_not_sampled_decoded_or_cached() -> None:
    m = make_managers(16, 4)
    m.add(0, list(range(1, 11)), max_tokens=2)
    batch = m.prefill.schedule_next_batch(5)
    m.run(batch)
    (chunk,) = batch.reqs
    assert not chunk.can_decode
    with pytest.raises(NotImplementedError):
        chunk.append_host(ints([1]))
    assert not m.decode.runnable
    assert tuple(m.cache.prefix_cache.size_info) == (0, 0)
    assert m.prefill.pending_list[0].chunked_req is chunk


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("budget", [1, 2, 3, 5, 7])
def test_chunks_take_the_same_pages_as_one_piece(page_size: int, budget: int) -> None:
    """A chunk that ends inside a page goes on in it."""
    whole, cut = (
        make_managers(32 // page_size, page_size),
        make_managers(32 // page_size, page_size),
    )
    for m in (whole, cut):
        m.add(0, list(range(1, 12)), max_tokens=2)
    whole.run(whole.prefill.schedule_next_batch(100))
    while cut.prefill.runnable:
        cut.run(cut.prefill.schedule_next_batch(budget))
    assert torch.equal(cut.table.page_table[7, :11], whole.table.page_table[7, :11])
    assert cut.cache.free_slots.tolist() == whole.cache.free_slots.tolist()
    assert torch.equal(cut.table.token_pool[7, :11], whole.table.token_pool[7, :11])


def test_the_rest_of_the_budget_goes_to_the_next_request() -> None:
    m = make_managers(16, 4)
    m.add(0, [1] * 3, max_tokens=2)
    m.add(1, [2] * 9, max_tokens=2)
    m.add(2, [3] * 2, max_tokens=2)
    batch = m.prefill.schedule_next_batch(5)
    assert [(r.uid, r.extend_len, type(r)) for r in batch.reqs] == [(0, 3, Req), (1, 2, ChunkedReq)]
    m.run(batch)
    assert [p.uid for p in m.prefill.pending_list] == [1, 2]  # the chunk is first again
    batch = m.prefill.schedule_next_batch(5)
    assert [(r.uid, r.extend_len) for r in batch.reqs] == [(1, 5)]
    m.run(batch)
    batch = m.prefill.schedule_next_batch(5)
    assert [(r.uid, r.extend_len) for r in batch.reqs] == [(1, 2), (2, 2)]


def test_a_chunk_is_not_compared_again_and_reserves_its_rest() -> None:
    """What it was promised is kept from others that are admitted beside its next chunk."""
    m = make_managers(4, 2)
    m.add(0, [1] * 6, max_tokens=2)  # all four pages
    m.run(m.prefill.schedule_next_batch(2))
    m.add(1, [2], max_tokens=1)
    batch = m.prefill.schedule_next_batch(4)
    assert uids(batch) == [0]
    m.run(batch)
    batch = m.prefill.schedule_next_batch(4)
    assert batch is None
    m.run(m.schedule())
    assert uids(m.prefill.schedule_next_batch(4)) == [1]


def test_a_chunk_that_starts_inside_a_page_needs_only_the_pages_beyond() -> None:
    m = make_managers(3, 4)
    m.add(0, [1] * 7, max_tokens=1)
    m.run(m.prefill.schedule_next_batch(5))  # two pages taken, all it needs
    m.add(1, [2] * 3, max_tokens=1)
    assert uids(m.prefill.schedule_next_batch(10)) == [0, 1]


def test_a_partial_hit_is_followed_by_chunks() -> None:
    m = make_managers(16, 4)
    finish_one(m, list(range(1, 10)))
    m.add(0, list(range(1, 16)), max_tokens=1)
    batch = m.prefill.schedule_next_batch(3)
    assert [lengths(r) for r in batch.reqs] == [(8, 3, 12)]
    m.run(batch)
    batch = m.prefill.schedule_next_batch(9)
    assert [lengths(r) for r in batch.reqs] == [(11, 4, 16)]
    m.run(batch)
    m.cache.check_integrity()
    assert tuple(m.cache.prefix_cache.size_info) == (12, 0)


# --- abort ---------------------------------------------------------------------------------------


def test_abort_of_a_waiting_request_holds_nothing() -> None:
    m = make_managers(16, 4)
    m.add(0, [1])
    m.add(1, [2])
    assert m.prefill.abort_req(0) is None
    assert [p.uid for p in m.prefill.pending_list] == [1]
    assert m.prefill.abort_req(0) is None


def test_abort_of_an_unfinished_chunk_gives_it_back_for_release() -> None:
    m = make_managers(16, 4)
    m.add(0, list(range(1, 11)), max_tokens=2)
    m.run(m.prefill.schedule_next_batch(6))
    chunk = m.prefill.abort_req(0)
    assert isinstance(chunk, ChunkedReq) and not m.prefill.runnable
    m.finish(chunk)
    m.cache.check_integrity()
    assert tuple(m.cache.prefix_cache.size_info) == (4, 0)
    assert m.table.available_size == 8


def test_a_refusal_after_the_lock_tells_what_was_available_under_it() -> None:
    """What the prompt would lock can't be evicted for it: that is why it has to wait."""
    from minisgl_lite.toy import Toy
    from minisgl_lite.trace import Recorder

    song = "we all live in a yellow submarine today"
    toy = Toy(page_size=4, num_pages=6)
    toy.add(song, says="!")
    toy.run()
    toy.add("a dog ran", says="to the")
    toy.step()
    with Recorder(toy) as recorder:
        toy.add(f"{song} and tomorrow", says="a b c d e f g h i j k l m n")
        toy.step()
    trace = recorder.trace()
    refused = trace.frames[trace.find("refuse:r3")]["refuse"]
    assert refused["need"] + refused["reserved"] > refused["available"]
    assert (refused["need"], refused["reserved"], refused["available"]) == (16, 0, 12)
