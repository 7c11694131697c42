from __future__ import annotations

import pytest
import torch
from helpers.tree import snapshot

from minisgl_lite.core import Req, SamplingParams
from minisgl_lite.kvcache.radix_cache import RadixPrefixCache
from minisgl_lite.scheduler.cache import CacheManager
from minisgl_lite.scheduler.utils import PendingReq

ROWS, WIDTH = 4, 32


def ints(values: list[int] | range) -> torch.Tensor:
    return torch.tensor(list(values), dtype=torch.int32)


def make_manager(num_pages: int, page_size: int, type: str = "radix") -> CacheManager:
    table = torch.zeros((ROWS + 1, WIDTH), dtype=torch.int32)
    return CacheManager(num_pages, page_size, table, type)


def admit(manager: CacheManager, ids: list[int], row: int, output_len: int = 4, uid: int = 0):
    """What admission does: match, lock, copy the matched slots into the row."""
    params = SamplingParams(max_tokens=output_len)
    handle = manager.match_req(PendingReq(uid, ints(ids), params)).cuda_handle
    manager.lock(handle)
    manager.page_table[row, : handle.cached_len] = handle.get_matched_indices()
    return Req(
        input_ids=ints(ids),
        table_idx=row,
        cached_len=handle.cached_len,
        output_len=output_len,
        uid=uid,
        sampling_params=params,
        cache_handle=handle,
    )


def step(manager: CacheManager, *reqs: Req, token: int = 7) -> None:
    """One iteration: places, forward, the sampled token."""
    manager.allocate_paged(list(reqs))
    for req in reqs:
        req.complete_one()
        req.append_host(ints([token]))


def row(manager: CacheManager, req: Req, end: int | None = None) -> list[int]:
    return manager.page_table[req.table_idx, : req.cached_len if end is None else end].tolist()


def sizes(manager: CacheManager) -> tuple[int, int]:
    return tuple(manager.prefix_cache.size_info)


# --- the queue ---------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [1, 3, 4])
def test_free_slots_are_page_starts_in_order(page_size: int) -> None:
    manager = make_manager(5, page_size)
    assert manager.free_slots.tolist() == [i * page_size for i in range(5)]
    assert manager.free_slots.dtype == torch.int32
    assert manager.available_size == 5 * page_size


def test_free_slots_can_be_read_sliced_and_set() -> None:
    manager = make_manager(4, 2)
    manager.free_slots = manager.free_slots[1:]
    assert manager.free_slots.tolist() == [2, 4, 6]
    assert len(manager.free_slots) == 3
    assert manager._allocate(1).tolist() == [2]
    assert manager.available_size == 4


def test_page_to_token_expands_page_starts() -> None:
    assert make_manager(4, 4)._page_to_token(ints([8, 0])).tolist() == [8, 9, 10, 11, 0, 1, 2, 3]
    assert make_manager(4, 1)._page_to_token(ints([3, 1])).tolist() == [3, 1]


def test_pages_are_taken_at_the_head_and_freed_to_the_tail() -> None:
    manager = make_manager(4, 4)
    assert manager._allocate(2).tolist() == [0, 4]
    manager._free(ints([4, 5, 6, 7]))
    manager._free(ints([0, 1, 2, 3]))
    assert manager.free_slots.tolist() == [8, 12, 4, 0]
    assert manager._allocate(3).tolist() == [8, 12, 4]


def test_a_page_that_is_partly_used_is_freed_whole() -> None:
    manager = make_manager(3, 4)
    manager._allocate(2)
    manager._free(ints([0, 1, 2, 3, 4]))
    assert manager.free_slots.tolist() == [8, 0, 4]


def test_freeing_nothing_changes_nothing() -> None:
    manager = make_manager(2, 4)
    manager._free(ints([]))
    assert manager.free_slots.tolist() == [0, 4]


def test_lazy_free_region_appends_once_at_its_end_in_call_order() -> None:
    manager = make_manager(6, 1)
    manager._allocate(4)
    with manager.lazy_free_region():
        manager._free(ints([2]))
        manager._free(ints([0, 3]))
        assert manager.free_slots.tolist() == [4, 5]
    assert manager.free_slots.tolist() == [4, 5, 2, 0, 3]
    manager._free(ints([1]))
    assert manager.free_slots.tolist() == [4, 5, 2, 0, 3, 1]


def test_lazy_free_region_takes_copies() -> None:
    """A row changes between `_free` and the region's end when its duplicates are pointed anew."""
    manager = make_manager(4, 1)
    manager._allocate(4)
    slots = manager.page_table[0, :2]
    slots.copy_(ints([2, 3]))
    with manager.lazy_free_region():
        manager._free(slots)
        slots.copy_(ints([0, 1]))
    assert manager.free_slots.tolist() == [2, 3]


def test_lazy_free_region_returns_pages_when_its_body_raises() -> None:
    manager = make_manager(4, 1)
    manager._allocate(4)
    with pytest.raises(KeyError), manager.lazy_free_region():
        manager._free(ints([1]))
        raise KeyError
    assert manager.free_slots.tolist() == [1]
    manager._free(ints([2]))
    assert manager.free_slots.tolist() == [1, 2]


# --- allocate_paged ----------------------------------------------------------------------------


def new_pages(manager: CacheManager, req: Req) -> int:
    before = len(manager.free_slots)
    step(manager, req)
    return before - len(manager.free_slots)


@pytest.mark.parametrize(("prompt", "pages"), [(4, [1, 1, 0]), (3, [1, 0, 1]), (8, [2, 1, 0])])
def test_pages_are_taken_only_when_the_last_one_is_full(prompt: int, pages: list[int]) -> None:
    manager = make_manager(8, 4)
    req = admit(manager, list(range(1, prompt + 1)), row=0)
    assert [new_pages(manager, req) for _ in range(3)] == pages


def test_allocated_slots_stand_in_the_row_by_position() -> None:
    manager = make_manager(8, 4)
    a, b = admit(manager, [1] * 5, row=2), admit(manager, [2] * 3, row=0, uid=1)
    manager.allocate_paged([a, b])
    assert row(manager, a, 9) == [0, 1, 2, 3, 4, 5, 6, 7, 0]
    assert row(manager, b, 5) == [8, 9, 10, 11, 0]
    assert manager.free_slots.tolist() == [12, 16, 20, 24, 28]
    assert (manager.page_table[[1, 3, 4]] == 0).all()


def test_only_the_pages_beyond_the_cached_part_are_allocated() -> None:
    manager = make_manager(8, 4)
    a = admit(manager, list(range(1, 10)), row=0)
    step(manager, a)
    manager.cache_req(a, finished=True)  # two pages stay in the tree
    b = admit(manager, list(range(1, 12)), row=1)
    assert b.cached_len == 8
    manager.allocate_paged([b])
    assert row(manager, b, 12) == [0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15]


def test_a_short_list_is_filled_by_eviction_at_the_tail() -> None:
    """An evicted leaf is returned whole; what isn't needed stays at the end of the queue."""
    manager = make_manager(8, 4)
    a = admit(manager, list(range(1, 10)), row=0, output_len=1)
    step(manager, a)
    manager.cache_req(a, finished=True)
    assert manager.free_slots.tolist() == [12, 16, 20, 24, 28, 8]
    assert sizes(manager) == (8, 0)
    assert manager._allocate(6).tolist() == [12, 16, 20, 24, 28, 8]
    assert manager._allocate(1).tolist() == [0]
    assert manager.free_slots.tolist() == [4]
    assert sizes(manager) == (0, 0)


def test_an_evicted_slot_comes_back_as_a_page_start() -> None:
    manager = make_manager(4, 4)
    manager._allocate(4)
    manager.prefix_cache.insert_prefix(ints(range(8)), ints([4, 5, 6, 7, 0, 1, 2, 3]))
    assert manager._allocate(2).tolist() == [4, 0]


def test_allocating_more_than_there_is_is_refused_before_anything_changes() -> None:
    manager = make_manager(4, 4)
    manager._allocate(2)
    manager.prefix_cache.insert_prefix(ints(range(4)), ints(range(4)))
    tree, free = snapshot(manager.prefix_cache), manager.free_slots.tolist()
    with pytest.raises(RuntimeError):
        manager._allocate(4)
    assert (snapshot(manager.prefix_cache), manager.free_slots.tolist()) == (tree, free)


def test_a_row_that_is_too_short_is_refused() -> None:
    manager = make_manager(16, 4)
    req = admit(manager, list(range(1, WIDTH + 2)), row=0)
    with pytest.raises((ValueError, IndexError, RuntimeError)):
        manager.allocate_paged([req])


def test_a_manager_needs_no_global_context_and_leaves_none() -> None:
    from minisgl_lite import core

    before = core._GLOBAL_CTX
    managers = {p: make_manager(4, p) for p in (4, 2, 1)}
    assert {p: m.prefix_cache.page_size for p, m in managers.items()} == {4: 4, 2: 2, 1: 1}
    assert core._GLOBAL_CTX is before


def test_the_constructor_does_not_look_at_the_page_table() -> None:
    manager = CacheManager(4, 4, torch.empty((1,)), type="radix")
    assert isinstance(manager.prefix_cache, RadixPrefixCache)
    assert manager.device == torch.device("cpu")
    assert (manager.num_pages, manager.page_size) == (4, 4)


def test_unknown_cache_type_is_refused() -> None:
    with pytest.raises(ValueError, match="lru"):
        make_manager(4, 4, "lru")


# --- matching ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("page_size", "cached"), [(1, 7), (2, 6), (4, 4), (8, 0)])
def test_the_last_prompt_token_is_never_matched(page_size: int, cached: int) -> None:
    manager = make_manager(16, page_size)
    ids = ints(range(1, 9))
    manager._allocate(8 // page_size)
    manager.prefix_cache.insert_prefix(ids, ints(range(8)))
    pending = PendingReq(0, ids, SamplingParams(max_tokens=1))
    assert (pending.input_len, pending.output_len) == (8, 1)
    assert manager.match_req(pending).cuda_handle.cached_len == cached


# --- release -----------------------------------------------------------------------------------


def test_a_finished_request_registers_whole_pages_and_frees_its_tail() -> None:
    manager = make_manager(8, 4)
    req = admit(manager, list(range(1, 10)), row=0, output_len=3)
    for _ in range(3):
        step(manager, req)
    assert req.cached_len == 11
    manager.cache_req(req, finished=True)
    assert set(manager.free_slots.tolist()) == {8, 12, 16, 20, 24, 28}
    assert manager.free_slots.tolist()[-1] == 8
    assert sizes(manager) == (8, 0)
    manager.check_integrity()


def test_naive_frees_all_of_it() -> None:
    manager = make_manager(8, 4, "naive")
    req = admit(manager, list(range(1, 10)), row=0)
    step(manager, req)
    manager.cache_req(req, finished=False)
    assert req.cache_handle.cached_len == 0
    step(manager, req)
    manager.cache_req(req, finished=True)
    assert manager.free_slots.tolist() == [12, 16, 20, 24, 28, 0, 4, 8]
    assert sizes(manager) == (0, 0)
    manager.check_integrity()


def test_a_living_request_keeps_its_tail_under_a_new_locked_handle() -> None:
    manager = make_manager(8, 4)
    req = admit(manager, list(range(1, 7)), row=0)
    old = req.cache_handle
    step(manager, req)
    manager.cache_req(req, finished=False)
    assert req.cache_handle is not old and req.cache_handle.cached_len == 4
    assert row(manager, req) == [0, 1, 2, 3, 4, 5]
    assert manager.free_slots.tolist() == [8, 12, 16, 20, 24, 28]
    assert sizes(manager) == (0, 4)
    manager.check_integrity([req])


def test_releasing_takes_nothing_from_a_row_of_the_table() -> None:
    """A slot without an owner keeps its number in the old row until someone overwrites it."""
    manager = make_manager(8, 4)
    req = admit(manager, list(range(1, 7)), row=0)
    step(manager, req)
    before = manager.page_table.clone()
    manager.cache_req(req, finished=True)
    assert torch.equal(manager.page_table, before)


def duplicate(page_size: int, n: int, finish_first: bool, **kwargs: int):
    """A and B, the same prompt in one batch; A is released first."""
    manager = make_manager(32 // page_size, page_size)
    a = admit(manager, list(range(1, n + 1)), row=3, uid=0)
    b = admit(manager, list(range(1, n + 1)), row=2, uid=1)
    step(manager, a, b)
    manager.cache_req(a, finished=finish_first)
    return manager, a, b


def test_duplicate_pages_are_freed_and_the_living_row_points_at_the_cached_ones() -> None:
    manager, _, b = duplicate(page_size=4, n=9, finish_first=True)
    assert row(manager, b) == [12, 13, 14, 15, 16, 17, 18, 19, 20]
    with manager.lazy_free_region():
        manager.cache_req(b, finished=False)
    assert row(manager, b) == [0, 1, 2, 3, 4, 5, 6, 7, 20]
    assert b.cache_handle.cached_len == 8
    assert manager.free_slots.tolist() == [24, 28, 8, 12, 16]
    assert sizes(manager) == (0, 8)
    manager.check_integrity([b])


@pytest.mark.parametrize("page_size", [1, 2, 4])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("finish_first", [False, True])
def test_duplicates_are_freed_once_in_every_setting(
    page_size: int, lazy: bool, finish_first: bool
) -> None:
    manager, a, b = duplicate(page_size=page_size, n=9, finish_first=finish_first)
    whole = 9 // page_size * page_size
    if lazy:
        with manager.lazy_free_region():
            manager.cache_req(b, finished=False)
    else:
        manager.cache_req(b, finished=False)
    assert row(manager, b, whole) == list(range(whole))
    live = [b] if finish_first else [a, b]
    manager.check_integrity(live)
    for req in live:
        manager.cache_req(req, finished=True)
    manager.check_integrity()
    assert sizes(manager) == (whole, 0)


def test_duplicates_of_a_finished_request_are_freed_before_its_tail() -> None:
    manager, _, b = duplicate(page_size=4, n=9, finish_first=True)
    manager.cache_req(b, finished=True)
    assert manager.free_slots.tolist()[-3:] == [12, 16, 20]
    assert sizes(manager) == (8, 0)
    manager.check_integrity()


def test_a_partly_duplicate_prefix_keeps_the_rest() -> None:
    """Only [old_handle, already cached) is pointed anew; what B adds is B's own, now shared."""
    manager = make_manager(16, 2)
    a = admit(manager, [1, 2, 3, 4, 5], row=3, uid=0)
    b = admit(manager, [1, 2, 3, 4, 9, 9, 9], row=2, uid=1)
    step(manager, a, b)  # a: pages 0 2 4, b: pages 6 8 10 12
    manager.cache_req(a, finished=False)
    manager.cache_req(b, finished=False)
    assert row(manager, b) == [0, 1, 2, 3, 10, 11, 12]
    assert manager.free_slots.tolist()[-2:] == [6, 8]
    assert b.cache_handle.get_matched_indices().tolist() == [0, 1, 2, 3, 10, 11]
    assert sizes(manager) == (0, 6)
    manager.check_integrity([a, b])


def test_matched_pages_are_not_freed_as_duplicates() -> None:
    manager = make_manager(16, 2)
    a = admit(manager, [1, 2, 3, 4, 5], row=0)
    step(manager, a)
    manager.cache_req(a, finished=True)
    b = admit(manager, [1, 2, 3, 4, 6, 7], row=1)
    assert b.cached_len == 4
    step(manager, b)
    free = manager.free_slots.tolist()
    manager.cache_req(b, finished=False)
    assert manager.free_slots.tolist() == free
    assert sizes(manager) == (0, 6)
    manager.check_integrity([b])


def test_the_old_lock_is_held_until_the_new_one_is() -> None:
    """Nothing of the request's own prefix may become evictable between the two handles."""
    manager = make_manager(16, 2)
    a = admit(manager, [1, 2, 3, 4, 5], row=0)
    step(manager, a)
    manager.cache_req(a, finished=False)
    a.cached_len = 5
    step(manager, a)
    manager.cache_req(a, finished=False)
    assert sizes(manager) == (0, 6)
    manager.cache_req(a, finished=True)
    assert sizes(manager) == (6, 0)


# --- check_integrity: each violation, planted ----------------------------------------------------


def living(page_size: int = 2) -> tuple[CacheManager, Req, Req]:
    """Two live requests with a shared prefix, a tail each, something evictable, and free pages."""
    manager = make_manager(32 // page_size, page_size)
    old = admit(manager, [8, 8, 8, 8], row=0)
    step(manager, old)
    manager.cache_req(old, finished=True)
    a = admit(manager, [1, 2, 3, 4, 5], row=3, uid=11)
    step(manager, a)
    manager.cache_req(a, finished=False)
    b = admit(manager, [1, 2, 3, 4, 6, 7, 8], row=2, uid=12)
    step(manager, b)
    manager.cache_req(b, finished=False)
    manager.check_integrity([a, b])
    return manager, a, b


def assert_found(manager: CacheManager, live: list[Req], *slots: int) -> None:
    with pytest.raises(RuntimeError) as error:
        manager.check_integrity(live)
    import re

    named = set(map(int, re.findall(r"\d+", str(error.value))))
    assert set(slots) <= named, f"{error.value} does not name {slots}"


def test_integrity_holds_between_preparing_and_launching() -> None:
    """Then a request also owns the pages that were taken for the step to come."""
    manager, a, b = living()
    step(manager, a)  # six tokens: the next one needs a page
    manager.allocate_paged([a])
    manager.check_integrity([a, b], prepared=[a])
    with pytest.raises(RuntimeError):
        manager.check_integrity([a, b])


def test_integrity_finds_a_slot_that_is_free_and_cached() -> None:
    manager, a, b = living()
    manager._free(ints([0, 1]))
    assert_found(manager, [a, b], 0)


def test_integrity_finds_a_slot_that_is_nowhere() -> None:
    manager, a, b = living()
    lost = int(manager._allocate(1))
    assert_found(manager, [a, b], lost)


def test_integrity_finds_balanced_books_with_one_page_twice_and_one_lost() -> None:
    manager = make_manager(4, 1)
    manager._allocate(2)
    manager.prefix_cache.insert_prefix(ints([1, 2]), ints([0, 3]))
    assert len(manager.free_slots) + manager.prefix_cache.size_info.total_size == 4
    assert_found(manager, [], 3, 1)


def test_integrity_finds_a_page_freed_twice() -> None:
    manager, a, b = living()
    twice = int(manager.free_slots[0])
    manager._free(ints([twice, twice + 1]))
    assert_found(manager, [a, b], twice)


def test_integrity_finds_a_free_slot_that_starts_no_page() -> None:
    manager, a, b = living()
    free = manager.free_slots.clone()
    free[0] += 1
    manager.free_slots = free
    assert_found(manager, [a, b], int(free[0]))


@pytest.mark.parametrize("page_size", [1, 2])
def test_integrity_finds_the_dummy_page_in_the_free_list(page_size: int) -> None:
    manager, a, b = living(page_size)
    manager._free(ints(range(32, 32 + page_size)))
    assert_found(manager, [a, b], 32)


def test_integrity_finds_the_dummy_page_in_a_live_row() -> None:
    manager, a, b = living()
    manager.page_table[a.table_idx, 4] = 32
    with pytest.raises(RuntimeError, match="32"):
        manager.check_integrity([a, b])


def test_integrity_finds_a_freed_tail_of_a_live_request() -> None:
    manager, a, b = living()
    tail = row(manager, a)[4]
    manager._free(ints([tail, tail + 1]))
    assert_found(manager, [a, b], tail)


def test_integrity_finds_one_page_in_two_live_rows() -> None:
    manager, a, b = living()
    shared = row(manager, b)[6]
    manager.page_table[a.table_idx, 4:6] = ints([shared, shared + 1])
    assert_found(manager, [a, b], shared)


def test_integrity_finds_a_live_tail_that_is_cached_for_someone_else() -> None:
    manager, a, b = living()
    stranger = int(
        manager.prefix_cache.match_prefix(ints([8, 8])).cuda_handle.get_matched_indices()[0]
    )
    manager.page_table[a.table_idx, 4:6] = ints([stranger, stranger + 1])
    assert_found(manager, [a, b], stranger)


def test_integrity_finds_a_live_request_that_was_not_told() -> None:
    """Its locks and its own part have no owner when it is left out."""
    manager, a, _ = living()
    with pytest.raises(RuntimeError):
        manager.check_integrity([a])


def test_integrity_finds_a_missed_lock() -> None:
    manager, a, b = living()
    manager.unlock(b.cache_handle)
    with pytest.raises(RuntimeError):
        manager.check_integrity([a, b])


def test_integrity_finds_a_locked_prefix_that_was_evicted() -> None:
    """The end of a missed lock: the node has left the tree, its request still reads its slots."""
    manager = make_manager(8, 2)
    a = admit(manager, [1, 2, 3, 4, 5], row=0)
    step(manager, a)
    manager.cache_req(a, finished=False)
    manager.unlock(a.cache_handle)
    manager._free(manager.prefix_cache.evict(4))
    with pytest.raises(RuntimeError):
        manager.check_integrity([a])


def test_integrity_finds_a_lock_too_many() -> None:
    manager, a, b = living()
    manager.lock(a.cache_handle)
    with pytest.raises(RuntimeError):
        manager.check_integrity([a, b])


@pytest.mark.parametrize("field", ["evictable_size", "protected_size"])
@pytest.mark.parametrize("by", [2, -2])
def test_integrity_finds_a_wrong_counter(field: str, by: int) -> None:
    manager, a, b = living()
    cache = manager.prefix_cache
    setattr(cache, field, getattr(cache, field) + by)
    with pytest.raises(RuntimeError):
        manager.check_integrity([a, b])


def test_integrity_finds_two_wrong_counters_that_cancel_out() -> None:
    manager, a, b = living()
    manager.prefix_cache.evictable_size += 2
    manager.prefix_cache.protected_size -= 2
    with pytest.raises(RuntimeError):
        manager.check_integrity([a, b])


def test_integrity_finds_a_slot_in_two_nodes() -> None:
    manager, a, b = living()
    manager.prefix_cache.insert_prefix(ints([5, 5]), ints([0, 1]))
    assert_found(manager, [a, b], 0)


def test_integrity_finds_a_row_that_points_past_its_cached_prefix() -> None:
    """A stale row: the prefix is locked in the tree, but the row reads other slots."""
    manager, a, b = living()
    free = int(manager.free_slots[0])
    manager.page_table[b.table_idx, 0:2] = ints([free, free + 1])
    with pytest.raises(RuntimeError):
        manager.check_integrity([a, b])


def test_integrity_works_for_naive() -> None:
    manager = make_manager(8, 2, "naive")
    a = admit(manager, [1, 2, 3], row=0)
    step(manager, a)
    manager.check_integrity([a])
    with pytest.raises(RuntimeError):
        manager.check_integrity()
    manager.cache_req(a, finished=True)
    manager.check_integrity()


# --- reset ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [1, 2])
def test_reset_forgets_all_prefixes_and_loses_no_page(page_size: int) -> None:
    manager = make_manager(8, page_size)
    for uid, ids in enumerate(([1, 2, 3, 4], [1, 2, 5, 6, 7, 8])):
        req = admit(manager, ids, row=uid, uid=uid)
        step(manager, req)
        manager.cache_req(req, finished=True)
    assert manager.prefix_cache.size_info.total_size > 0
    manager.reset()
    assert sorted(manager.free_slots.tolist()) == list(range(0, 8 * page_size, page_size))
    assert sizes(manager) == (0, 0)
    manager.check_integrity()
    manager.reset()  # nothing to forget: nothing happens
    assert len(manager.free_slots) == 8


def test_reset_refuses_while_a_request_holds_a_prefix() -> None:
    manager = make_manager(8, 2)
    first = admit(manager, [1, 2, 3, 4], row=0)
    step(manager, first)
    manager.cache_req(first, finished=False)
    before = manager.free_slots.tolist()
    with pytest.raises(RuntimeError, match="4 tokens are locked"):
        manager.reset()
    assert manager.free_slots.tolist() == before and sizes(manager) == (0, 4)


@pytest.mark.parametrize(("num_pages", "page_size"), [(0, 1), (-1, 1), (4, 0), (4, 2.0), ("4", 1)])
def test_a_pool_needs_pages_and_pages_need_tokens(num_pages: object, page_size: object) -> None:
    with pytest.raises(ValueError, match="a whole number of 1 or more"):
        make_manager(num_pages, page_size)
