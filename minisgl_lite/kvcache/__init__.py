"""Makes pools and prefix caches by name (mini-sglang: kvcache/__init__.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

from ..utils import Registry
from .base import (
    BaseCacheHandle,
    BaseKVCachePool,
    BasePrefixCache,
    InsertResult,
    MatchResult,
    SizeInfo,
)
from .mha_pool import MHAKVCache
from .naive_cache import NaiveCacheHandle, NaivePrefixCache
from .radix_cache import RadixCacheHandle, RadixPrefixCache

if TYPE_CHECKING:
    from ..models.config import ModelConfig


class CacheManagerCreator(Protocol):
    """Makes a prefix cache for slots on ``device``; P is the current context's."""

    def __call__(self, device: torch.device) -> BasePrefixCache: ...


SUPPORTED_CACHE_MANAGER: Registry[CacheManagerCreator] = Registry("cache type")
"""Prefix caches by name; register your own under another name."""


@SUPPORTED_CACHE_MANAGER.register("naive")
def create_naive_cache(device: torch.device) -> BasePrefixCache:
    """The cache that matches and keeps nothing."""
    return NaivePrefixCache(device=device)


@SUPPORTED_CACHE_MANAGER.register("radix")
def create_radix_cache(device: torch.device) -> BasePrefixCache:
    """The cache that keeps prefixes in a tree."""
    return RadixPrefixCache(device=device)


def create_prefix_cache(device: torch.device, type: str) -> BasePrefixCache:
    """A prefix cache of the registered ``type``: "naive" or "radix".

    Raises:
        ValueError: unknown type; the message lists the known ones.
    """
    return SUPPORTED_CACHE_MANAGER[type](device)


def create_kvcache_pool(
    model_config: ModelConfig,
    num_pages: int,
    page_size: int,
    dtype: torch.dtype,
    device: torch.device,
) -> BaseKVCachePool:
    """The pool of a model: ``num_pages`` pages of ``page_size`` tokens in every layer."""
    return MHAKVCache(
        num_kv_heads=model_config.num_kv_heads,
        num_layers=model_config.num_layers,
        head_dim=model_config.head_dim,
        num_pages=num_pages,
        page_size=page_size,
        dtype=dtype,
        device=device,
    )


__all__ = [
    "SUPPORTED_CACHE_MANAGER",
    "BaseCacheHandle",
    "BaseKVCachePool",
    "BasePrefixCache",
    "CacheManagerCreator",
    "InsertResult",
    "MHAKVCache",
    "MatchResult",
    "NaiveCacheHandle",
    "NaivePrefixCache",
    "RadixCacheHandle",
    "RadixPrefixCache",
    "SizeInfo",
    "create_kvcache_pool",
    "create_naive_cache",
    "create_prefix_cache",
    "create_radix_cache",
]
