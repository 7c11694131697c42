"""The two contracts of the KV cache: a pool of tensors, and a memory of prefixes.

The pool knows nothing of requests or token ids; the prefix cache holds no floats, only token ids
and slots (mini-sglang: kvcache/base.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..hooks import NO_HOOKS, Hooks


class BaseKVCachePool(ABC):
    """K and V of all layers, allocated once, addressed by token slot.

    N' = pages of the pool, P = tokens per page, H_kv = KV heads on this rank, D = head_dim.
    The same slot number in two layers is two different places.
    """

    @abstractmethod
    def k_cache(self, index: int) -> torch.Tensor:
        """K of layer ``index``: an (N', P, H_kv, D) view, no copy."""

    @abstractmethod
    def v_cache(self, index: int) -> torch.Tensor:
        """V of layer ``index``: an (N', P, H_kv, D) view, no copy."""

    @abstractmethod
    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        """Write this step's K and V of one layer, row t to slot ``out_loc[t]``.

        Args:
            k, v: (T, H_kv, D), or (T, H_kv·D), of the pool's dtype.
            out_loc: (T,) int32 or int64 slots. Changes the pool, only at these slots of this layer.

        Raises:
            ValueError: there is no such layer, or shapes, dtypes or devices do not fit.
        """

    @property
    @abstractmethod
    def device(self) -> torch.device: ...

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype: ...

    @property
    @abstractmethod
    def num_layers(self) -> int: ...


@dataclass(frozen=True)
class BaseCacheHandle(ABC):
    """A known prefix of ``cached_len`` tokens. It protects nothing until it is locked."""

    cached_len: int

    @abstractmethod
    def get_matched_indices(self) -> torch.Tensor:
        """The prefix's slots in order, (cached_len,) int32. Valid while the handle is locked."""


class SizeInfo(NamedTuple):
    """Tokens a prefix cache holds: those it may evict now, and those that handles protect."""

    evictable_size: int
    protected_size: int

    @property
    def total_size(self) -> int:
        return self.evictable_size + self.protected_size


class InsertResult(NamedTuple):
    """``cached_len`` tokens stood in the cache before; ``handle`` covers all that stand now."""

    cached_len: int
    handle: BaseCacheHandle


class MatchResult(NamedTuple):
    """``cuda_handle``: the longest known prefix, in whole pages."""

    cuda_handle: BaseCacheHandle


def check_insert(input_ids: torch.Tensor, indices: torch.Tensor) -> None:
    """What ``insert_prefix`` is given: one slot for each token."""
    if len(input_ids) != len(indices):
        raise ValueError(f"{len(input_ids)} tokens and {len(indices)} slots: one slot per token.")


def check_evict(size: int) -> None:
    """What ``evict`` is asked for."""
    if type(size) is not int or size < 0:
        raise ValueError(f"can't evict {size!r} tokens: a whole number of 0 or more is needed.")


class BasePrefixCache(ABC):
    """Remembers which slots hold the K/V of which token prefix, in whole pages.

    A handle must be locked before anything that may evict is called; else its slots can get a new
    owner. Token ids are (n,) on the CPU, slots (n,) int32 on the cache's device.
    """

    hooks: Hooks = NO_HOOKS

    @abstractmethod
    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        """Protect the handle's prefix from eviction once more, or (``unlock``) once less.

        Moves tokens between ``evictable_size`` and ``protected_size``; the content stays.

        Raises:
            RuntimeError: the prefix was evicted since it was matched, or is unlocked more often
                than it was locked; nothing is changed.
        """

    @abstractmethod
    def match_prefix(self, input_ids: torch.Tensor) -> MatchResult:
        """The longest known prefix of ``input_ids``. It counts as a use; it protects nothing."""

    @abstractmethod
    def insert_prefix(self, input_ids: torch.Tensor, indices: torch.Tensor) -> InsertResult:
        """Remember that ``indices[i]`` holds the K/V of ``input_ids[i]``, for all whole pages.

        What is known already keeps its old slots: the caller frees ``indices`` below the result's
        ``cached_len``. Slots are copied, never kept as views.

        Raises:
            ValueError: not one slot for each token; nothing is changed.
        """

    @abstractmethod
    def evict(self, size: int) -> torch.Tensor:
        """Forget at least ``size`` tokens, least recently used first; returns their slots.

        More may be forgotten, since entries go whole. ``size`` 0 does nothing.

        Raises:
            ValueError: ``size`` is no whole number of 0 or more.
            RuntimeError: ``size`` is more than ``evictable_size``; nothing is changed.
        """

    @abstractmethod
    def reset(self) -> None:
        """Forget everything, and give no slot back: ``CacheManager.reset`` keeps the pages.

        Raises:
            RuntimeError: something is locked; nothing is changed.
        """

    @property
    @abstractmethod
    def size_info(self) -> SizeInfo: ...

    @abstractmethod
    def check_integrity(self) -> None:
        """Raises RuntimeError, naming the slot or the counter, if the cache contradicts itself."""
