"""Random sequences on the radix cache, step by step against a flat model without a tree."""

from __future__ import annotations

import random

import pytest
import torch
from helpers import tree
from helpers.flat_cache import FlatCache, FlatHandle
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minisgl_lite.core import Context, use_ctx
from minisgl_lite.kvcache.radix_cache import RadixPrefixCache


def ints(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


class Pair:
    """The cache and its model, given the same calls; slots come from an allocator without reuse."""

    def __init__(self, page_size: int) -> None:
        with use_ctx(Context(page_size=page_size)):
            self.cache = RadixPrefixCache(torch.device("cpu"))
        self.model = FlatCache(page_size)
        self.page_size = page_size
        self.next_page = 0
        self.locked: list[tuple[object, FlatHandle]] = []

    def _agree(self, real, model: FlatHandle) -> None:
        assert real.cached_len == model.cached_len
        assert real.get_matched_indices().tolist() == self.model.slots_of(model)

    def match(self, ids: list[int], lock: bool) -> None:
        real, model = self.cache.match_prefix(ints(ids)).cuda_handle, self.model.match(ids)
        self._agree(real, model)
        if lock:
            self.lock(real, model)

    def insert(self, ids: list[int], lock: bool) -> None:
        pages = -(-len(ids) // self.page_size)
        first = self.next_page * self.page_size
        self.next_page += pages
        slots = list(range(first, first + pages * self.page_size))[: len(ids)]
        real = self.cache.insert_prefix(ints(ids), ints(slots))
        cached_len, model = self.model.insert(ids, slots)
        assert real.cached_len == cached_len
        self._agree(real.handle, model)
        if lock:
            self.lock(real.handle, model)

    def lock(self, real, model: FlatHandle) -> None:
        self.cache.lock_handle(real)
        self.model.lock(model)
        self.locked.append((real, model))

    def unlock(self, index: int) -> None:
        real, model = self.locked.pop(index % len(self.locked))
        self.cache.lock_handle(real, unlock=True)
        self.model.lock(model, by=-1)

    def evict(self, size: int) -> None:
        want = self.model.evict(size)
        if want is None:
            with pytest.raises(RuntimeError):
                self.cache.evict(size)
        else:
            assert self.cache.evict(size).tolist() == want

    def check(self) -> None:
        assert tree.snapshot(self.cache) == self.model.snapshot()
        assert tree.use_order(self.cache) == self.model.use_order()
        assert tuple(self.cache.size_info) == (self.model.evictable, self.model.protected)
        tree.assert_well_formed(self.cache, self.page_size)
        self.cache.check_integrity()
        for real, model in self.locked:
            self._agree(real, model)


@pytest.mark.parametrize("page_size", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(25))
def test_random_sequences_agree_with_the_flat_model(page_size: int, seed: int) -> None:
    rng = random.Random(1000 * page_size + seed)
    pair = Pair(page_size)
    known: list[list[int]] = [[]]
    for _ in range(60):
        base = rng.choice(known)
        ids = base[: rng.randint(0, len(base))]
        ids = ids + [rng.randint(1, 3) for _ in range(rng.randint(0, 9))]
        op = rng.random()
        if op < 0.35:
            pair.match(ids, lock=rng.random() < 0.4)
        elif op < 0.7:
            pair.insert(ids, lock=rng.random() < 0.4)
            known.append(ids)
        elif op < 0.85 and pair.locked:
            pair.unlock(rng.randrange(len(pair.locked)))
        else:
            pair.evict(rng.randint(0, pair.model.evictable + 2))
        pair.check()


class RadixMachine(RuleBasedStateMachine):
    """The same comparison, with hypothesis choosing (and shrinking) the sequence."""

    ids = st.lists(st.integers(1, 2), max_size=10)

    @initialize(page_size=st.sampled_from([1, 2, 4]))
    def begin(self, page_size: int) -> None:
        self.pair = Pair(page_size)

    @rule(ids=ids, lock=st.booleans())
    def match(self, ids: list[int], lock: bool) -> None:
        self.pair.match(ids, lock)

    @rule(ids=ids, lock=st.booleans())
    def insert(self, ids: list[int], lock: bool) -> None:
        self.pair.insert(ids, lock)

    @precondition(lambda self: self.pair.locked)
    @rule(index=st.integers(0, 9))
    def unlock(self, index: int) -> None:
        self.pair.unlock(index)

    @rule(size=st.integers(0, 12))
    def evict(self, size: int) -> None:
        self.pair.evict(size)

    @invariant()
    def agrees(self) -> None:
        self.pair.check()


TestRadixMachine = RadixMachine.TestCase
TestRadixMachine.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
