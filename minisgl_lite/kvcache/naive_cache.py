"""The policy that remembers nothing (mini-sglang: kvcache/naive_cache.py)."""

from __future__ import annotations

import torch

from .base import (
    BaseCacheHandle,
    BasePrefixCache,
    InsertResult,
    MatchResult,
    SizeInfo,
    check_evict,
    check_insert,
)


class NaiveCacheHandle(BaseCacheHandle):
    """The empty prefix."""

    empty_tensor: torch.Tensor = torch.empty(0, dtype=torch.int32)

    def __init__(self, empty_tensor: torch.Tensor | None = None) -> None:
        super().__init__(cached_len=0)
        if empty_tensor is not None:
            object.__setattr__(self, "empty_tensor", empty_tensor)

    def get_matched_indices(self) -> torch.Tensor:
        return self.empty_tensor


class NaivePrefixCache(BasePrefixCache):
    """Every match is empty and nothing is kept, so every page goes back to the free list.

    Storage is as under any other policy: attention reads and writes the same pool the same way.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.empty_tensor = torch.empty(0, dtype=torch.int32, device=device)

    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        pass

    def match_prefix(self, input_ids: torch.Tensor) -> MatchResult:
        return MatchResult(NaiveCacheHandle(self.empty_tensor))

    def insert_prefix(self, input_ids: torch.Tensor, indices: torch.Tensor) -> InsertResult:
        check_insert(input_ids, indices)
        return InsertResult(0, NaiveCacheHandle(self.empty_tensor))

    def evict(self, size: int) -> torch.Tensor:
        check_evict(size)
        if size > 0:
            raise RuntimeError(f"can't evict {size} tokens: the naive cache keeps none.")
        return self.empty_tensor

    def reset(self) -> None:
        pass

    @property
    def size_info(self) -> SizeInfo:
        return SizeInfo(evictable_size=0, protected_size=0)

    def check_integrity(self) -> None:
        pass
