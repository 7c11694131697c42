from __future__ import annotations

import pytest
import torch

from minisgl_lite.kvcache import create_prefix_cache
from minisgl_lite.kvcache.base import BasePrefixCache
from minisgl_lite.kvcache.naive_cache import NaivePrefixCache


@pytest.fixture
def cache() -> BasePrefixCache:
    return create_prefix_cache(device=torch.device("cpu"), type="naive")


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def test_it_remembers_nothing(cache: BasePrefixCache) -> None:
    assert isinstance(cache, NaivePrefixCache)
    result = cache.insert_prefix(ints(1, 2, 3), ints(4, 5, 6))
    assert (result.cached_len, result.handle.cached_len) == (0, 0)
    handle = cache.match_prefix(ints(1, 2, 3)).cuda_handle
    assert handle.cached_len == 0
    indices = handle.get_matched_indices()
    assert indices.tolist() == [] and indices.dtype == torch.int32
    assert tuple(cache.size_info) == (0, 0)


def test_locks_are_no_ops(cache: BasePrefixCache) -> None:
    handle = cache.match_prefix(ints(1)).cuda_handle
    cache.lock_handle(handle)
    cache.lock_handle(handle, unlock=True)
    assert tuple(cache.size_info) == (0, 0)
    cache.check_integrity()
    cache.reset()


def test_only_zero_tokens_can_be_evicted(cache: BasePrefixCache) -> None:
    assert cache.evict(0).tolist() == []
    with pytest.raises(RuntimeError, match="1"):
        cache.evict(1)


def test_misuse_is_refused_as_by_the_other_policy(cache: BasePrefixCache) -> None:
    with pytest.raises(ValueError, match="-1 tokens"):
        cache.evict(-1)
    with pytest.raises(ValueError, match="2 tokens and 1 slots"):
        cache.insert_prefix(torch.tensor([1, 2]), torch.tensor([0]))
