"""Reads a radix cache from its nodes alone (never from its counters)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def walk_nodes(cache: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Every node but the root, with its full path of token ids."""
    stack = [((), cache.root_node)]
    while stack:
        path, node = stack.pop()
        for child in node.children.values():
            full = path + tuple(child._key.tolist())
            yield full, child
            stack.append((full, child))


def snapshot(cache: Any) -> dict[tuple[int, ...], tuple[int, list[int], int]]:
    """path -> (start, slots, ref_count); raises when two nodes claim one path."""
    out: dict[tuple[int, ...], tuple[int, list[int], int]] = {}
    for path, node in walk_nodes(cache):
        assert path not in out, f"two nodes for {path}"
        out[path] = (len(path) - node.length, node.value.tolist(), node.ref_count)
    return out


def use_order(cache: Any) -> dict[tuple[int, ...], int]:
    """path -> rank of its timestamp; equal timestamps share a rank."""
    times = {path: node.timestamp for path, node in walk_nodes(cache)}
    ranks = {t: i for i, t in enumerate(sorted(set(times.values())))}
    return {path: ranks[t] for path, t in times.items()}


def assert_well_formed(cache: Any, page_size: int) -> None:
    """Keys and values agree, pages are whole, links point both ways, counters equal the nodes."""
    evictable = protected = 0
    seen: dict[int, tuple[int, ...]] = {}
    for path, node in walk_nodes(cache):
        slots = node.value.tolist()
        assert node.length == len(slots) == len(node._key) > 0
        assert node.length % page_size == 0, f"{path}: {node.length} tokens are no whole pages"
        assert node.parent.children[node.parent.key_fn(node._key)] is node
        assert not node.is_root() and node.ref_count >= 0
        parent_refs = 1 << 30 if node.parent.is_root() else node.parent.ref_count
        assert node.ref_count <= parent_refs, f"{path} is locked more often than its parent"
        for at in range(0, len(slots), page_size):
            page = slots[at : at + page_size]
            assert page[0] % page_size == 0, f"{path}: slot {page[0]} starts no page"
            assert page == list(range(page[0], page[0] + page_size)), f"{path}: torn page {page}"
        for slot in slots:
            assert slot not in seen, f"slot {slot} stands in {seen.get(slot)} and in {path}"
            seen[slot] = path
        if node.ref_count == 0:
            evictable += node.length
        else:
            protected += node.length
    assert cache.root_node.is_root() and cache.root_node.ref_count == 1
    assert tuple(cache.size_info) == (evictable, protected)
    assert cache.size_info.total_size == evictable + protected
