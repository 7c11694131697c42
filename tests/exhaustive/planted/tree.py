"""Faults of the radix tree."""

from __future__ import annotations

import torch

from minisgl_lite.core import Context, use_ctx
from minisgl_lite.kvcache import (
    BaseCacheHandle,
    InsertResult,
    MatchResult,
    RadixCacheHandle,
    RadixPrefixCache,
)
from minisgl_lite.kvcache.radix_cache import RadixTreeNode
from minisgl_lite.scheduler import CacheManager


class Tree(RadixPrefixCache):
    """A prefix cache with a fault; ``holding`` puts it into a cache manager."""

    @classmethod
    def holding(cls) -> type[CacheManager]:
        tree = cls

        class Holder(CacheManager):
            def __init__(
                self, num_pages: int, page_size: int, page_table: torch.Tensor, type: str
            ) -> None:
                super().__init__(num_pages, page_size, page_table, type)
                if type == "radix":
                    with use_ctx(Context(page_size)):
                        self.prefix_cache = tree(self.device)

        return Holder


class NeverLocks(Tree):
    """A lock protects nothing."""

    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        pass


class LocksAncestorsOnly(Tree):
    """A lock leaves out the node that was matched."""

    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        assert isinstance(handle, RadixCacheHandle)
        if not handle.node.is_root():
            length = handle.cached_len - handle.node.length
            super().lock_handle(RadixCacheHandle(length, handle.node.parent), unlock)


class NeverUnlocks(Tree):
    """What was locked once stays."""

    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        if not unlock:
            super().lock_handle(handle)


class EvictsLocked(Tree):
    """Leaves are evicted whether they are locked or not."""

    def _collect_leave_nodes_for_evict(self) -> list[RadixTreeNode]:
        return [node for node in self.nodes() if node.is_leaf()]

    def _remove_leaf(self, node: RadixTreeNode) -> None:
        locks, node.ref_count = node.ref_count, 0
        super()._remove_leaf(node)
        node.ref_count = locks


class SplitForgetsLocks(Tree):
    """The new upper node of a split is not locked by those who hold the lower one."""

    def _split(self, node: RadixTreeNode, pos: int) -> RadixTreeNode:
        upper = super()._split(node, pos)
        upper.ref_count = 0
        return upper


class MatchesTooMuch(Tree):
    """A partly matched node counts as matched to its end."""

    def match_prefix(self, input_ids: torch.Tensor) -> MatchResult:
        node, length = self.root_node, 0
        while len(input_ids) - length >= self.page_size:
            child = node.children.get(self.key_fn(input_ids[length:]))
            if child is None or length + child.length > len(input_ids):
                break
            node, length = child, length + child.length
        return MatchResult(RadixCacheHandle(length, node))


class InsertsPartPages(Tree):
    """A part page is registered like a whole one."""

    def insert_prefix(self, input_ids: torch.Tensor, indices: torch.Tensor) -> InsertResult:
        size, self.page_size = self.page_size, 1
        try:
            return super().insert_prefix(input_ids, indices)
        finally:
            self.page_size = size
