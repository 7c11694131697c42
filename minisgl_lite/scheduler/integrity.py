"""The conservation check: every slot of the pool has exactly one owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..core import Req
from ..kvcache import RadixCacheHandle, RadixPrefixCache
from ..utils import div_ceil

if TYPE_CHECKING:
    from .cache import CacheManager

MOST_PROBLEMS = 8
"""How many findings one error lists."""


def check_integrity(manager: CacheManager, live: list[Req], prepared: list[Req]) -> None:
    """See ``CacheManager.check_integrity``: collects all findings, then raises one error."""
    problems = list(_double_owners(manager, live, prepared))
    if isinstance(manager.prefix_cache, RadixPrefixCache):
        problems += _wrong_locks(manager.prefix_cache, live)
    problems += _wrong_matches(manager, live)
    if problems:
        more = len(problems) - MOST_PROBLEMS
        tail = f"; and {more} more" if more > 0 else ""
        raise RuntimeError("; ".join(problems[:MOST_PROBLEMS]) + tail + ".")
    manager.prefix_cache.check_integrity()


def _double_owners(manager: CacheManager, live: list[Req], prepared: list[Req]) -> Iterator[str]:
    num_slots = manager.num_pages * manager.page_size
    owners: dict[int, str] = {}
    for slot, owner in _claims(manager, live, prepared):
        if not 0 <= slot < num_slots:
            yield f"slot {slot} ({owner}) is outside the managed pool [0, {num_slots})"
        elif slot in owners:
            yield f"slot {slot} has two owners: {owners[slot]} and {owner}"
        owners[slot] = owner
    for slot in range(num_slots):
        if slot not in owners:
            page = slot // manager.page_size
            yield f"slot {slot} (page {page}) is nowhere: not free, not cached, in no live request"


def _claims(
    manager: CacheManager, live: list[Req], prepared: list[Req]
) -> Iterator[tuple[int, str]]:
    """Every slot that somebody holds, with the holder in words."""
    page_size = manager.page_size
    for start in manager.free_slots.tolist():
        owner = "free" if start % page_size == 0 else f"free, but {start} begins no page"
        yield from ((slot, owner) for slot in range(start, start + page_size))
    if isinstance(manager.prefix_cache, RadixPrefixCache):
        for node in manager.prefix_cache.nodes():
            yield from ((slot, f"cached in node {node.uuid}") for slot in node.value.tolist())
    for req in live:
        written = req.device_len if any(req is other for other in prepared) else req.cached_len
        start, end = req.cache_handle.cached_len, div_ceil(written, page_size) * page_size
        own = manager.page_table[req.table_idx, start:end].tolist()
        for position, slot in enumerate(own, start):
            yield slot, f"request {req.uid} at position {position}"


def _wrong_locks(cache: RadixPrefixCache, live: list[Req]) -> Iterator[str]:
    """Each node is locked once for every live handle whose path runs through it."""
    expected: Counter[int] = Counter()
    for req in live:
        assert isinstance(req.cache_handle, RadixCacheHandle)
        node = req.cache_handle.node
        while not node.is_root():
            expected[node.uuid] += 1
            node = node.parent
    for node in cache.nodes():
        holders = expected.pop(node.uuid, 0)
        if node.ref_count != holders:
            yield (
                f"node {node.uuid} (slots {node.value.tolist()}) is locked {node.ref_count} times,"
                f" held by {holders} live requests"
            )
    for uuid, holders in expected.items():
        yield f"node {uuid} was evicted while {holders} live requests hold it"


def _wrong_matches(manager: CacheManager, live: list[Req]) -> Iterator[str]:
    """The matched part of each live row is what its handle names."""
    for req in live:
        cached = req.cache_handle.get_matched_indices().tolist()
        row = manager.page_table[req.table_idx, : req.cache_handle.cached_len].tolist()
        for position, (slot, right) in enumerate(zip(row, cached, strict=True)):
            if slot != right:
                yield (
                    f"slot {slot} stands at position {position} of request {req.uid};"
                    f" its locked prefix lies in slot {right}"
                )
