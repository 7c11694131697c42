"""An audit of a scheduler between two turns, by brute force and without the engine's own check."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from helpers.tree import assert_well_formed, walk_nodes
from minisgl_lite.kvcache.radix_cache import RadixPrefixCache


def audit(scheduler: Any) -> None:
    """Every slot has one owner, every lock one holder, every row one user; nothing is stale."""
    manager = scheduler.cache_manager
    page_size, num_slots = manager.page_size, manager.num_pages * manager.page_size
    live = scheduler.live_reqs()
    assert len({id(req) for req in live}) == len(live)
    owners: dict[int, list[str]] = defaultdict(list)
    for start in manager.free_slots.tolist():
        assert start % page_size == 0, f"free page start {start}"
        for slot in range(start, start + page_size):
            owners[slot].append("free")
    cache = manager.prefix_cache
    radix = isinstance(cache, RadixPrefixCache)
    if radix:
        assert_well_formed(cache, page_size)
        for path, node in walk_nodes(cache):
            for slot in node.value.tolist():
                owners[slot].append(f"tree {path}")
    for req in live:
        for slot in own_slots(req, manager.page_table, page_size):
            owners[slot].append(f"request {req.uid}")
    wrong = {s: o for s, o in owners.items() if len(o) != 1 or not 0 <= s < num_slots}
    assert not wrong, f"slots with a wrong owner: {wrong}"
    lost = sorted(set(range(num_slots)) - set(owners))
    assert not lost, f"slots without an owner: {lost}"
    if radix:
        assert_locks_are_held(cache, live)
    for req in live:
        assert_prefix_is_cached(req, manager.page_table)
    assert_rows(scheduler, live)


def own_slots(req: Any, page_table: Any, page_size: int) -> list[int]:
    """The row beyond the cached prefix, to the end of the last page that has K/V."""
    end = -(-req.cached_len // page_size) * page_size
    return page_table[req.table_idx, req.cache_handle.cached_len : end].tolist()


def assert_locks_are_held(cache: RadixPrefixCache, live: list[Any]) -> None:
    """Each node's ref_count is the number of live handles at or below it."""
    held: dict[int, int] = defaultdict(int)
    for req in live:
        node = req.cache_handle.node
        while not node.is_root():
            held[id(node)] += 1
            node = node.parent
    nodes = {id(node): (path, node) for path, node in walk_nodes(cache)}
    assert set(held) <= set(nodes), "a live request holds a node that has left the tree"
    for key, (path, node) in nodes.items():
        assert node.ref_count == held[key], f"{path}: {node.ref_count} locks, {held[key]} holders"


def assert_prefix_is_cached(req: Any, page_table: Any) -> None:
    """The matched part of a live row names the slots of its handle, and these hold its ids."""
    handle = req.cache_handle
    matched = handle.get_matched_indices().tolist()
    assert len(matched) == handle.cached_len <= req.cached_len
    row = page_table[req.table_idx, : handle.cached_len].tolist()
    assert row == matched, f"request {req.uid} reads {row}, its prefix lies in {matched}"
    if hasattr(handle, "node"):
        keys: list[int] = []
        node = handle.node
        while not node.is_root():
            keys = node._key.tolist() + keys
            node = node.parent
        assert keys == req.input_ids[: len(keys)].tolist()


def assert_rows(scheduler: Any, live: list[Any]) -> None:
    """Rows are free or live, never both; the dummy's row and ids are as at the start."""
    table = scheduler.table_manager
    rows = table._max_running_reqs
    taken = {req.table_idx for req in live}
    free = list(table._free_slots)
    assert len(set(free)) == len(free)
    assert taken.isdisjoint(free) and taken | set(free) == set(range(rows))
    dummy = scheduler.cache_manager.num_pages * scheduler.cache_manager.page_size
    assert (table.page_table[rows] == dummy).all()
    assert (table.token_pool[rows] == 0).all()


def audit_idle(scheduler: Any) -> None:
    """Nothing lives: every page is free or in the tree, no lock is left, every row is free."""
    assert scheduler.live_reqs() == []
    assert not scheduler.has_work
    audit(scheduler)
    assert scheduler.cache_manager.prefix_cache.size_info.protected_size == 0
    assert scheduler.table_manager.available_size == scheduler.table_manager._max_running_reqs
