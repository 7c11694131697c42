from __future__ import annotations

import pytest
import torch
from helpers.tree import assert_well_formed, snapshot, use_order, walk_nodes

from minisgl_lite.core import Context, use_ctx
from minisgl_lite.kvcache.radix_cache import RadixPrefixCache

CPU = torch.device("cpu")


def make_cache(page_size: int = 1) -> RadixPrefixCache:
    with use_ctx(Context(page_size=page_size)):
        return RadixPrefixCache(CPU)


def ints(values: list[int] | range) -> torch.Tensor:
    return torch.tensor(list(values), dtype=torch.int32)


def insert(cache: RadixPrefixCache, ids: list[int], first_slot: int):
    return cache.insert_prefix(ints(ids), ints(range(first_slot, first_slot + len(ids))))


def match(cache: RadixPrefixCache, ids: list[int]):
    return cache.match_prefix(ints(ids)).cuda_handle


def sizes(cache: RadixPrefixCache) -> tuple[int, int]:
    return tuple(cache.size_info)


def test_page_size_comes_from_the_current_context() -> None:
    assert make_cache(4).page_size == 4


def test_an_empty_tree_matches_nothing() -> None:
    cache = make_cache()
    handle = match(cache, [1, 2, 3])
    assert handle.cached_len == 0
    assert handle.node is cache.root_node
    indices = handle.get_matched_indices()  # the root holds no slots: empty, no error
    assert indices.tolist() == [] and indices.dtype == torch.int32
    cache.lock_handle(handle)
    cache.lock_handle(handle, unlock=True)
    assert cache.root_node.ref_count == 1


def test_empty_ids_match_the_root() -> None:
    cache = make_cache()
    insert(cache, [1, 2], 0)
    assert match(cache, []).cached_len == 0
    assert snapshot(cache) == {(1, 2): (0, [0, 1], 0)}


def test_match_returns_the_slots_in_order_of_the_tokens() -> None:
    cache = make_cache()
    insert(cache, [1, 2, 3], 5)
    cache.insert_prefix(ints([1, 2, 3, 4, 5]), ints([5, 6, 7, 2, 1]))
    handle = match(cache, [1, 2, 3, 4, 5, 6])
    assert handle.cached_len == 5
    assert handle.get_matched_indices().tolist() == [5, 6, 7, 2, 1]


def test_insert_says_what_was_there_before() -> None:
    cache = make_cache()
    first = insert(cache, [1, 2, 3], 0)
    assert (first.cached_len, first.handle.cached_len) == (0, 3)
    second = cache.insert_prefix(ints([1, 2, 3, 4]), ints([9, 9, 9, 3]))
    assert (second.cached_len, second.handle.cached_len) == (3, 4)
    assert second.handle.get_matched_indices().tolist() == [0, 1, 2, 3]
    again = cache.insert_prefix(ints([1, 2]), ints([8, 8]))
    assert (again.cached_len, again.handle.cached_len) == (2, 2)
    assert again.handle.get_matched_indices().tolist() == [0, 1]


def test_insert_of_the_rest_is_one_node() -> None:
    cache = make_cache()
    insert(cache, [1, 2, 3, 4], 0)
    cache.insert_prefix(ints([1, 2, 7, 8, 9]), ints([0, 1, 4, 5, 6]))
    assert snapshot(cache) == {
        (1, 2): (0, [0, 1], 0),
        (1, 2, 3, 4): (2, [2, 3], 0),
        (1, 2, 7, 8, 9): (2, [4, 5, 6], 0),
    }


def test_inserted_slots_are_copies_of_the_row() -> None:
    cache = make_cache()
    row = ints([0, 1, 2])
    cache.insert_prefix(ints([1, 2, 3]), row)
    row.fill_(77)
    assert match(cache, [1, 2, 3]).get_matched_indices().tolist() == [0, 1, 2]


def test_inserted_ids_are_not_the_callers_buffer() -> None:
    """A request's ids are a slice of the caller's tensor; a caller may reuse its buffer."""
    cache = make_cache()
    ids = ints([1, 2, 3])
    cache.insert_prefix(ids, ints([0, 1, 2]))
    ids.fill_(9)
    assert match(cache, [1, 2, 3]).cached_len == 3


def test_matched_indices_do_not_let_a_row_into_the_tree() -> None:
    cache = make_cache()
    insert(cache, [1, 2, 3], 0)
    row = torch.zeros(3, dtype=torch.int32)
    row.copy_(match(cache, [1, 2, 3]).get_matched_indices())
    row.fill_(9)
    assert match(cache, [1, 2, 3]).get_matched_indices().tolist() == [0, 1, 2]


def test_a_partial_match_splits_and_handles_keep_the_lower_half() -> None:
    cache = make_cache()
    handle = insert(cache, [1, 2, 3, 4, 5], 0).handle
    cache.lock_handle(handle)
    lower = handle.node
    part = match(cache, [1, 2, 9])
    assert part.cached_len == 2
    assert handle.node is lower and lower.length == 3
    assert part.node is lower.parent and part.node.length == 2
    assert part.node.ref_count == lower.ref_count == 1  # the lock covers both halves
    assert handle.get_matched_indices().tolist() == [0, 1, 2, 3, 4]
    assert sizes(cache) == (0, 5)
    cache.lock_handle(handle, unlock=True)
    assert sizes(cache) == (5, 0)


@pytest.mark.parametrize(
    ("ids", "length"),
    [
        ([1, 2, 3, 4, 5, 9, 9, 9], 4),
        ([1, 2, 3, 9, 5, 6, 7, 8], 0),
        ([1, 2, 3], 0),
        ([1, 2, 3, 4, 5, 6, 7], 4),
        ([1, 2, 3, 4, 5, 6, 7, 8], 8),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], 8),
        ([9, 2, 3, 4], 0),
    ],
)
def test_matches_are_whole_pages(ids: list[int], length: int) -> None:
    cache = make_cache(4)
    insert(cache, [1, 2, 3, 4, 5, 6, 7, 8], 0)
    handle = match(cache, ids)
    assert handle.cached_len == length
    assert handle.get_matched_indices().tolist() == list(range(length))
    assert_well_formed(cache, 4)


def test_children_that_share_part_of_a_page_stay_apart() -> None:
    cache = make_cache(2)
    insert(cache, [1, 2], 0)
    insert(cache, [1, 3], 2)
    assert snapshot(cache) == {(1, 2): (0, [0, 1], 0), (1, 3): (0, [2, 3], 0)}


def test_insert_drops_the_rest_of_an_unfinished_page() -> None:
    cache = make_cache(4)
    result = insert(cache, [1, 2, 3, 4, 5, 6], 0)
    assert result.handle.cached_len == 4
    assert snapshot(cache) == {(1, 2, 3, 4): (0, [0, 1, 2, 3], 0)}
    assert insert(cache, [7, 8, 9], 8).handle.cached_len == 0
    assert sizes(cache) == (4, 0)


def test_a_lock_covers_the_matched_node_and_its_ancestors() -> None:
    """A split prefix locked twice is free only after the second unlock."""
    cache = make_cache()
    insert(cache, [1, 2, 3, 4, 5, 6, 7, 8], 0)
    first = match(cache, [1, 2, 3, 4, 50])
    cache.lock_handle(first)
    second = match(cache, [1, 2, 3, 4, 50])
    cache.lock_handle(second)
    assert sizes(cache) == (4, 4)
    cache.lock_handle(first, unlock=True)
    assert sizes(cache) == (4, 4)
    cache.lock_handle(second, unlock=True)
    assert sizes(cache) == (8, 0)


def test_a_lock_on_a_child_locks_each_ancestor() -> None:
    cache = make_cache()
    insert(cache, [1, 2], 0)
    child = cache.insert_prefix(ints([1, 2, 3]), ints([0, 1, 2])).handle
    cache.lock_handle(child)
    assert {path: node.ref_count for path, node in walk_nodes(cache)} == {(1, 2): 1, (1, 2, 3): 1}
    assert sizes(cache) == (0, 3)


def test_unlocking_more_often_than_locking_is_refused() -> None:
    cache = make_cache()
    handle = insert(cache, [1, 2], 0).handle
    with pytest.raises((AssertionError, RuntimeError)):
        cache.lock_handle(handle, unlock=True)


def test_evict_refuses_before_it_changes_anything() -> None:
    cache = make_cache()
    insert(cache, [1, 2, 3], 0)
    locked = insert(cache, [5, 6], 3).handle
    cache.lock_handle(locked)
    before = snapshot(cache), use_order(cache), sizes(cache)
    with pytest.raises(RuntimeError, match=r"4.*3|3.*4"):
        cache.evict(4)
    assert (snapshot(cache), use_order(cache), sizes(cache)) == before


def test_evict_zero_is_empty() -> None:
    cache = make_cache()
    insert(cache, [1], 0)
    assert cache.evict(0).tolist() == []
    assert sizes(cache) == (1, 0)


def test_evict_skips_locked_nodes() -> None:
    cache = make_cache()
    cache.lock_handle(insert(cache, [1, 2], 0).handle)
    insert(cache, [3, 4], 2)
    assert cache.evict(1).tolist() == [2, 3]
    assert snapshot(cache) == {(1, 2): (0, [0, 1], 1)}


def test_evict_takes_whole_leaves_least_recently_used_first() -> None:
    cache = make_cache()
    insert(cache, [1, 1, 1], 0)
    insert(cache, [2, 2], 3)
    insert(cache, [3, 3], 5)
    match(cache, [1, 1, 1])
    assert cache.evict(3).tolist() == [3, 4, 5, 6]  # two whole nodes, 2.. before 3..
    assert sizes(cache) == (3, 0)


def test_a_parent_that_becomes_a_leaf_joins_with_its_own_time() -> None:
    cache = make_cache()
    insert(cache, [1], 0)
    cache.insert_prefix(ints([1, 2]), ints([0, 1]))
    insert(cache, [9], 5)
    # last used: [1,2] (walked when it was made) < [9]; the parent [1] was walked with its child
    assert cache.evict(2).tolist() == [1, 0]
    match(cache, [9])
    assert cache.evict(1).tolist() == [5]


def test_a_fresh_parent_outlives_an_older_stranger() -> None:
    cache = make_cache()
    insert(cache, [1], 0)
    cache.insert_prefix(ints([1, 2]), ints([0, 1]))
    insert(cache, [9], 5)
    match(cache, [1, 7])  # uses [1], not [1,2]
    assert cache.evict(2).tolist() == [1, 5]
    assert snapshot(cache) == {(1,): (0, [0], 0)}


def test_a_partial_hit_counts_as_use() -> None:
    cache = make_cache()
    insert(cache, [1, 2, 3, 4], 0)
    insert(cache, [9, 9], 10)
    match(cache, [1, 2, 50])  # splits; the matched half is the newest, the rest the oldest
    assert use_order(cache) == {(1, 2, 3, 4): 0, (9, 9): 1, (1, 2): 2}
    assert cache.evict(1).tolist() == [2, 3]
    assert cache.evict(1).tolist() == [10, 11]
    assert cache.evict(1).tolist() == [0, 1]


def test_an_insert_that_splits_counts_as_use_of_the_matched_half() -> None:
    cache = make_cache()
    insert(cache, [1, 2, 3, 4], 0)
    insert(cache, [9, 9], 10)
    cache.insert_prefix(ints([1, 2, 7]), ints([0, 1, 20]))
    assert use_order(cache) == {(1, 2, 3, 4): 0, (9, 9): 1, (1, 2): 2, (1, 2, 7): 3}


def test_a_full_hit_moves_the_whole_path() -> None:
    cache = make_cache()
    insert(cache, [1], 0)
    cache.insert_prefix(ints([1, 2]), ints([0, 1]))
    insert(cache, [9], 5)
    match(cache, [1, 2])
    assert use_order(cache) == {(9,): 0, (1,): 1, (1, 2): 1}


def test_the_clock_is_logical() -> None:
    """Once per walk and once per new node, never the time of day."""

    def ticks() -> list[int]:
        cache = make_cache()
        insert(cache, [1, 2, 3], 0)
        insert(cache, [4], 3)
        match(cache, [1, 2, 9])
        insert(cache, [4, 5], 3)
        start = cache.root_node.timestamp
        return sorted(node.timestamp - start for _, node in walk_nodes(cache))

    first = ticks()
    assert first == ticks()
    # insert: walk, node; insert: walk, node; match: walk (splits); insert: walk, node
    assert [t - first[0] for t in first] == [0, 3, 4, 5]


def test_nodes_are_counted_per_cache_from_the_root() -> None:
    for _ in range(2):
        cache = make_cache()
        assert cache.root_node.uuid == 0
        insert(cache, [1, 2, 3], 0)
        match(cache, [1, 2, 9])
        assert sorted(node.uuid for _, node in walk_nodes(cache)) == [1, 2]


def test_reset_forgets_everything() -> None:
    cache = make_cache()
    insert(cache, [1, 2, 3], 0)
    cache.reset()
    assert sizes(cache) == (0, 0)
    assert match(cache, [1, 2, 3]).cached_len == 0
    insert(cache, [1, 2], 4)
    assert match(cache, [1, 2, 3]).get_matched_indices().tolist() == [4, 5]
    assert_well_formed(cache, 1)


def test_reset_refuses_while_something_is_locked() -> None:
    cache = make_cache()
    handle = insert(cache, [1, 2, 3], 0).handle
    cache.lock_handle(handle)
    with pytest.raises(RuntimeError):
        cache.reset()
    assert sizes(cache) == (0, 3)
    cache.lock_handle(handle, unlock=True)
    cache.reset()
    assert sizes(cache) == (0, 0)


@pytest.mark.parametrize("field", ["evictable_size", "protected_size"])
def test_check_integrity_compares_the_counters_with_the_nodes(field: str) -> None:
    cache = make_cache()
    cache.lock_handle(insert(cache, [1, 2], 0).handle)
    insert(cache, [3], 2)
    cache.check_integrity()
    setattr(cache, field, getattr(cache, field) + 1)
    with pytest.raises(RuntimeError):
        cache.check_integrity()


def test_check_integrity_finds_a_slot_in_two_nodes() -> None:
    cache = make_cache()
    insert(cache, [1, 2], 0)
    insert(cache, [3, 4], 1)
    with pytest.raises(RuntimeError, match=r"\b1\b"):
        cache.check_integrity()


def test_long_shared_prefixes_match_quickly() -> None:
    """The key compare has no Python loop over tokens."""
    import time

    cache = make_cache()
    ids = torch.arange(100_000, dtype=torch.int32)
    cache.insert_prefix(ids, ids)
    start = time.perf_counter()
    for _ in range(20):
        assert cache.match_prefix(ids).cuda_handle.cached_len == 100_000
    assert time.perf_counter() - start < 5.0  # a loop over tensors would take minutes


# --- misuse: refused before anything changes ------------------------------------------------------


def test_a_handle_whose_prefix_was_evicted_can_not_be_locked() -> None:
    cache = make_cache()
    insert(cache, [1, 2], 0)
    handle = match(cache, [1, 2])
    cache.evict(2)
    with pytest.raises(RuntimeError, match="node 1 was evicted since it was matched"):
        cache.lock_handle(handle)
    assert sizes(cache) == (0, 0)
    insert(cache, [1, 2], 4)  # the same prefix again is another node
    with pytest.raises(RuntimeError, match="match the prefix anew"):
        cache.lock_handle(handle)
    assert sizes(cache) == (2, 0)


def test_a_handle_of_another_cache_can_not_be_locked() -> None:
    cache, other = make_cache(), make_cache()
    for handle in (insert(other, [1, 2], 0).handle, match(other, [9])):
        with pytest.raises(RuntimeError, match="not of this cache"):
            cache.lock_handle(handle)


def test_a_handle_from_before_a_reset_can_not_be_locked() -> None:
    cache = make_cache()
    handle = insert(cache, [1, 2], 0).handle
    cache.reset()
    with pytest.raises(RuntimeError, match="time before a reset"):
        cache.lock_handle(handle)


def test_an_insert_needs_a_slot_for_each_token() -> None:
    cache = make_cache()
    with pytest.raises(ValueError, match="3 tokens and 2 slots"):
        cache.insert_prefix(ints([1, 2, 3]), ints([0, 1]))
    assert snapshot(cache) == {}


@pytest.mark.parametrize("size", [-1, 0.5, True, None, "2"])
def test_evict_takes_whole_numbers(size: object) -> None:
    cache = make_cache()
    insert(cache, [1, 2], 0)
    with pytest.raises(ValueError, match="a whole number of 0 or more"):
        cache.evict(size)
    assert sizes(cache) == (2, 0)
