"""A prefix cache without a tree: one flat record per node, every question answered by brute force.

It is the oracle of the radix cache's tests, and shares no code and no data structure with it. A
record's name is its full path from the root (a tuple of token ids): "is an ancestor of" is "is a
prefix of".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Record:
    """The tokens `path[start:]`, their slots, when they were last used, and who locks them."""

    start: int
    slots: list[int]
    time: int
    refs: int = 0


@dataclass(frozen=True)
class FlatHandle:
    """A matched or inserted prefix: its length, and the record that it ends in (() is the root)."""

    cached_len: int
    path: tuple[int, ...]


class FlatCache:
    """The rules of design section 4 ("Prefix caches") on a dict of records."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.records: dict[tuple[int, ...], Record] = {}
        self.clock = 0

    @property
    def evictable(self) -> int:
        return sum(len(r.slots) for r in self.records.values() if r.refs == 0)

    @property
    def protected(self) -> int:
        return sum(len(r.slots) for r in self.records.values() if r.refs > 0)

    def match(self, ids: list[int]) -> FlatHandle:
        return self._walk(tuple(ids))

    def insert(self, ids: list[int], slots: list[int]) -> tuple[int, FlatHandle]:
        whole = len(ids) // self.page_size * self.page_size
        path = tuple(ids[:whole])
        found = self._walk(path)
        if found.cached_len == whole:
            return whole, found
        self.clock += 1
        self.records[path] = Record(found.cached_len, slots[found.cached_len : whole], self.clock)
        return found.cached_len, FlatHandle(whole, path)

    def lock(self, handle: FlatHandle, by: int = 1) -> None:
        for path in self._ancestry(handle.path):
            self.records[path].refs += by
            assert self.records[path].refs >= 0

    def slots_of(self, handle: FlatHandle) -> list[int]:
        return [slot for path in self._ancestry(handle.path) for slot in self.records[path].slots]

    def evict(self, size: int) -> list[int] | None:
        """The evicted slots, oldest first; None when it must refuse."""
        if size > self.evictable:
            return None
        out: list[int] = []
        while len(out) < size:
            starts = {path[: record.start] for path, record in self.records.items()}
            leaves = [p for p, r in self.records.items() if r.refs == 0 and p not in starts]
            oldest = min(leaves, key=lambda path: self.records[path].time)
            out += self.records.pop(oldest).slots
        return out

    def snapshot(self) -> dict[tuple[int, ...], tuple[int, list[int], int]]:
        """path -> (start, slots, refs)."""
        return {p: (r.start, list(r.slots), r.refs) for p, r in self.records.items()}

    def use_order(self) -> dict[tuple[int, ...], int]:
        """path -> rank of its last use; nodes used by the same walk share a rank."""
        ranks = {t: i for i, t in enumerate(sorted({r.time for r in self.records.values()}))}
        return {path: ranks[r.time] for path, r in self.records.items()}

    def _ancestry(self, path: tuple[int, ...]) -> list[tuple[int, ...]]:
        chain = []
        while path:
            chain.append(path)
            path = path[: self.records[path].start]
        return chain[::-1]

    def _common(self, a: tuple[int, ...], b: tuple[int, ...]) -> int:
        same = 0
        while same < min(len(a), len(b)) and a[same] == b[same]:
            same += 1
        return same // self.page_size * self.page_size

    def _walk(self, ids: tuple[int, ...]) -> FlatHandle:
        self.clock += 1
        length = max((self._common(path, ids) for path in self.records), default=0)
        hit = ids[:length]
        for path, record in list(self.records.items()):
            if path[:length] == hit and record.start < length < len(path):  # ends inside: split
                cut = length - record.start
                self.records[hit] = Record(
                    record.start, record.slots[:cut], self.clock, record.refs
                )
                record.start, record.slots = length, record.slots[cut:]
        for path, record in self.records.items():
            if path == ids[: len(path)]:  # the whole node lies on the way
                record.time = self.clock
        return FlatHandle(length, hit)
