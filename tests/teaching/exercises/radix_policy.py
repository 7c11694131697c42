from __future__ import annotations

from itertools import count
from typing import Any


class PageCache:
    """A dict of whole prefixes; the prefix is the handle."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.pages: dict[tuple[int, ...], list[int]] = {}
        self.locks: dict[tuple[int, ...], int] = {}
        self.used: dict[tuple[int, ...], int] = {}
        self.clock = 0

    def prefixes(self, ids: Any) -> list[tuple[int, ...]]:
        size = self.page_size
        return [tuple(ids[:end]) for end in range(size, len(ids) + 1, size)]

    def match(self, ids: list[int]) -> Any:
        self.clock += 1
        found: tuple[int, ...] = ()
        for prefix in self.prefixes(ids):
            if prefix not in self.pages:
                break
            self.used[prefix] = self.clock
            found = prefix
        return found

    def insert(self, ids: list[int], slots: list[int]) -> Any:
        known = len(self.match(ids))
        prefix: tuple[int, ...] = ()
        for prefix in self.prefixes(ids):
            if prefix not in self.pages:
                self.pages[prefix] = slots[len(prefix) - self.page_size : len(prefix)]
                self.locks[prefix] = 0
                self.used[prefix] = self.clock
        return known, prefix

    def slots(self, handle: Any) -> Any:
        return [slot for prefix in self.prefixes(handle) for slot in self.pages[prefix]]

    def lock(self, handle: Any) -> None:
        for prefix in self.prefixes(handle):
            self.locks[prefix] += 1

    def unlock(self, handle: Any) -> None:
        for prefix in self.prefixes(handle):
            self.locks[prefix] -= 1

    def candidates(self) -> list[tuple[int, ...]]:
        inner = {prefix[: -self.page_size] for prefix in self.pages}
        return [p for p in self.pages if p not in inner and self.locks[p] == 0]

    def evict(self, count: int) -> Any:
        gone: list[int] = []
        while len(gone) < count:
            oldest = min(self.candidates(), key=self.used.__getitem__)
            gone += self.pages.pop(oldest)
        return gone

    def evictable(self) -> Any:
        return sum(len(slots) for p, slots in self.pages.items() if self.locks[p] == 0)


class Trie:
    """Nodes in a list, found by number: a number is the handle. The least recent stand first."""

    def __init__(self, page_size: int) -> None:
        self.size = page_size
        self.numbers = count(1)
        self.children: dict[int, dict[tuple[int, ...], int]] = {0: {}}
        self.parent = {0: 0}
        self.place: dict[int, list[int]] = {}
        self.held: dict[int, int] = {}
        self.recency: list[int] = []
        self.free = 0

    def _walk(self, ids: list[int]) -> tuple[int, int]:
        node, at = 0, 0
        while at + self.size <= len(ids):
            below = self.children[node].get(tuple(ids[at : at + self.size]))
            if below is None:
                break
            node, at = below, at + self.size
            self.recency.remove(node)
            self.recency.append(node)
        return node, at

    def _up(self, node: int) -> list[int]:
        path = []
        while node:
            path.append(node)
            node = self.parent[node]
        return path[::-1]

    def match(self, ids: list[int]) -> int:
        return self._walk(ids)[0]

    def insert(self, ids: list[int], slots: list[int]) -> tuple[int, int]:
        node, known = self._walk(ids)
        for at in range(known, len(ids) // self.size * self.size, self.size):
            new = next(self.numbers)
            self.children[node][tuple(ids[at : at + self.size])] = new
            self.children[new], self.parent[new], self.held[new] = {}, node, 0
            self.place[new] = slots[at : at + self.size]
            self.recency.append(new)
            self.free += self.size
            node = new
        return known, node

    def slots(self, handle: int) -> list[int]:
        return [slot for node in self._up(handle) for slot in self.place[node]]

    def lock(self, handle: int) -> None:
        for node in self._up(handle):
            self.free -= self.size if self.held[node] == 0 else 0
            self.held[node] += 1

    def unlock(self, handle: int) -> None:
        for node in self._up(handle):
            self.held[node] -= 1
            self.free += self.size if self.held[node] == 0 else 0

    def evict(self, count: int) -> list[int]:
        gone: list[int] = []
        while len(gone) < count:
            node = next(n for n in self.recency if not self.held[n] and not self.children[n])
            self.recency.remove(node)
            above = self.children[self.parent[node]]
            above.pop(next(key for key, value in above.items() if value == node))
            self.free -= self.size
            gone.extend(self.place.pop(node))
        return gone

    def evictable(self) -> int:
        return self.free


class LockMissing(PageCache):
    def lock(self, handle: Any) -> None:
        pass

    def unlock(self, handle: Any) -> None:
        pass


class LocksTwice(PageCache):
    def lock(self, handle: Any) -> None:
        super().lock(handle)
        super().lock(handle)


class LockIsAFlag(PageCache):
    """The first unlock opens for all."""

    def lock(self, handle: Any) -> None:
        for prefix in self.prefixes(handle):
            self.locks[prefix] = 1

    def unlock(self, handle: Any) -> None:
        for prefix in self.prefixes(handle):
            self.locks[prefix] = 0


class LocksTheLastPageOnly(PageCache):
    def lock(self, handle: Any) -> None:
        if handle:
            self.locks[handle] += 1

    def unlock(self, handle: Any) -> None:
        if handle:
            self.locks[handle] -= 1


class EvictsLocked(PageCache):
    def candidates(self) -> list[tuple[int, ...]]:
        inner = {prefix[: -self.page_size] for prefix in self.pages}
        return [prefix for prefix in self.pages if prefix not in inner]


class EvictsInner(PageCache):
    def candidates(self) -> list[tuple[int, ...]]:
        return [prefix for prefix in self.pages if self.locks[prefix] == 0]


class MatchesBeyondTheBorder(PageCache):
    def match(self, ids: list[int]) -> Any:
        whole = super().match(ids)
        for prefix in self.pages:
            if len(prefix) > len(whole) and prefix[: len(ids)] == tuple(ids):
                return prefix
        return whole


class ByInsertion(PageCache):
    """The page that came first goes first, however often it was used."""

    def match(self, ids: list[int]) -> Any:
        before = dict(self.used)
        found = super().match(ids)
        self.used = before
        return found


class MostRecentFirst(PageCache):
    def evict(self, count: int) -> Any:
        gone: list[int] = []
        while len(gone) < count:
            gone += self.pages.pop(max(self.candidates(), key=self.used.__getitem__))
        return gone


class PageByItsOwnTokens(PageCache):
    """Takes the same words for the same K and V, whatever stands before them."""

    def match(self, ids: list[int]) -> Any:
        self.clock += 1
        own = {prefix[-self.page_size :]: prefix for prefix in self.pages}
        for prefix in reversed(self.prefixes(ids)):
            if prefix[-self.page_size :] in own:
                return own[prefix[-self.page_size :]]
        return ()


class NewSlotsForKnownPages(PageCache):
    def insert(self, ids: list[int], slots: list[int]) -> Any:
        known, handle = super().insert(ids, slots)
        for prefix in self.prefixes(ids):
            self.pages[prefix] = slots[len(prefix) - self.page_size : len(prefix)]
        return known, handle


class KeepsTheTail(PageCache):
    def insert(self, ids: list[int], slots: list[int]) -> Any:
        known, _ = super().insert(ids, slots)
        return known, tuple(ids)

    def slots(self, handle: Any) -> Any:
        whole = super().slots(handle)
        return whole + [0] * (len(handle) - len(whole))


class KnownIsAll(PageCache):
    def insert(self, ids: list[int], slots: list[int]) -> Any:
        _, handle = super().insert(ids, slots)
        return len(handle), handle


class InsertIsNoUse(PageCache):
    """Only a match counts as a use; what insert finds keeps its time."""

    def insert(self, ids: list[int], slots: list[int]) -> Any:
        before = dict(self.used)
        answer = super().insert(ids, slots)
        self.used.update({p: t for p, t in before.items() if p in self.pages})
        return answer


class EvictableCountsLocked(PageCache):
    def evictable(self) -> Any:
        return sum(len(slots) for slots in self.pages.values())


class OneKeptForAll(PageCache):
    """A class attribute where an object's own is wanted."""

    shared: dict[tuple[int, ...], list[int]] = {}  # noqa: RUF012 - the mistake

    def __init__(self, page_size: int) -> None:
        super().__init__(page_size)
        self.pages = self.shared


class ForgetsToReturn(PageCache):
    def insert(self, ids: list[int], slots: list[int]) -> Any:
        super().insert(ids, slots)


class ReturnsPageStarts(PageCache):
    def evict(self, count: int) -> Any:
        return super().evict(count)[:: self.page_size]


class ChangesItsArguments(PageCache):
    def insert(self, ids: list[int], slots: list[int]) -> Any:
        del ids[len(ids) // self.page_size * self.page_size :]
        return super().insert(ids, slots)


RIGHT = [PageCache, Trie]
WRONG = {
    LockMissing: "evictable() is then 4; it should be 2",
    LocksTwice: "evictable() is then 0; it should be",
    LockIsAFlag: "evictable() is then 2; it should be 0",
    LocksTheLastPageOnly: "evictable() is then",
    EvictsLocked: "gave up slots [0, 1]; it should be [8, 9]",
    EvictsInner: "gave up slots [0, 1]; it should be [10, 11]",
    MatchesBeyondTheBorder: "4 slots; whole pages of 2 are shared, and the handle was given for 3",
    ByInsertion: "gave up slots [0, 1]; it should be [8, 9]",
    MostRecentFirst: "gave up slots [0, 1]; it should be [8, 9]",
    PageByItsOwnTokens: "has 4 slots; whole pages of 2 are shared, and the handle was given for 2",
    NewSlotsForKnownPages: "its handle has slots [8, 9, 10, 11, 12, 13]; it should be [0, 1, 2, 3,",
    KeepsTheTail: "has 5 slots; whole pages of 2 are shared",
    KnownIsAll: "the tokens known before are 4; it should be 0",
    InsertIsNoUse: "gave up slots [0, 1]; it should be [8, 9]",
    EvictableCountsLocked: "evictable() is then 4; it should be 2",
    OneKeptForAll: "the tokens known before are 4; it should be 0",
    ForgetsToReturn: "returned None (is a return missing?); a pair (known, handle) is wanted",
    ReturnsPageStarts: "evict(2) returned 1 slots; whole pages, and at least 2 slots, are wanted",
    ChangesItsArguments: "PageCache.insert",
}
