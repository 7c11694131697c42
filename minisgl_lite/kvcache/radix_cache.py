"""The policy that keeps whole prefixes in a radix tree (mini-sglang: kvcache/radix_cache.py).

Nodes hold runs of whole pages: a key of token ids and a value of slots, of equal length. A walk
that ends inside a node splits it, and the matched part becomes a new *upper* node, so that a handle
to the old node still means the same, longer prefix::

    root                              root
      └─ B  [1 2 3 4 | 5 6 7 8]         └─ U  [1 2 3 4]        new, ref_count of B
            match [1 2 3 4 9 …], P=4          └─ B  [5 6 7 8]  old, keeps its handles

Time is logical: the clock ticks once per walk and once per new node, never by the machine's clock.
A walk gives its time to each node it matched, wholly or, by a split, in part.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import torch

from ..core import get_global_ctx
from ..kernel import fast_compare_key
from ..utils import align_down
from .base import (
    BaseCacheHandle,
    BasePrefixCache,
    InsertResult,
    MatchResult,
    SizeInfo,
    check_evict,
    check_insert,
)

KEY_FN: TypeAlias = Callable[[torch.Tensor], Hashable]


class RadixTreeNode:
    """A run of whole pages below its parent's prefix.

    ``ref_count``: locked handles whose path runs through here. ``timestamp``: logical time of the
    last use. ``uuid``: number within its tree, the root is 0.
    """

    counter: int = 0

    def __init__(self, key_fn: KEY_FN, tic: int | None = None) -> None:
        self.key_fn = key_fn
        self.children: dict[Hashable, RadixTreeNode] = {}
        self._parent: RadixTreeNode | None = None
        self.ref_count = 0
        self.uuid = RadixTreeNode.counter
        RadixTreeNode.counter += 1
        self.timestamp = tic or 0
        self._key: torch.Tensor
        self._value: torch.Tensor
        self._length = 0

    def set_key_value(self, key: torch.Tensor, value: torch.Tensor) -> None:
        """``key``: (n,) token ids on the CPU; ``value``: (n,) slots."""
        assert len(key) == len(value)
        self._key = key
        self._value = value
        self._length = len(key)

    def set_parent(self, parent: RadixTreeNode) -> None:
        """Hang this node below ``parent``, under the first page of its key."""
        self._parent = parent
        parent.children[self.key_fn(self._key)] = self

    @property
    def length(self) -> int:
        return self._length

    @property
    def parent(self) -> RadixTreeNode:
        assert self._parent is not None
        return self._parent

    @property
    def value(self) -> torch.Tensor:
        return self._value

    def is_root(self) -> bool:
        return self._parent is None

    def is_leaf(self) -> bool:
        return not self.children

    def get_match_len(self, input_ids: torch.Tensor) -> int:
        """How many tokens of this node's key ``input_ids`` begins with."""
        return fast_compare_key(self._key, input_ids)

    def split_at(self, pos: int) -> RadixTreeNode:
        """Move the first ``pos`` tokens into a new parent of this node, and return that parent."""
        assert 0 < pos < self.length
        upper = RadixTreeNode(self.key_fn, self.timestamp)
        upper.set_key_value(self._key[:pos], self._value[:pos])
        upper.set_parent(self.parent)
        upper.ref_count = self.ref_count
        self.set_key_value(self._key[pos:], self._value[pos:])
        self.set_parent(upper)
        return upper

    def __lt__(self, other: RadixTreeNode) -> bool:
        return (self.timestamp, self.uuid) < (other.timestamp, other.uuid)


@dataclass(frozen=True)
class RadixCacheHandle(BaseCacheHandle):
    """The prefix that ends with ``node``."""

    node: RadixTreeNode

    def get_matched_indices(self) -> torch.Tensor:
        values = [node.value for node in _path(self.node)]
        return torch.cat(values[::-1]) if values else self.node.value  # the root's: empty


class RadixPrefixCache(BasePrefixCache):
    """Keeps every inserted prefix until its pages are needed; takes P from the current context."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.page_size = get_global_ctx().page_size
        self.key_fn = _get_key_fn(self.page_size)
        self.empty_tensor = torch.empty(0, dtype=torch.int32, device=device)
        self.evictable_size = 0
        self.protected_size = 0
        self.reset()

    def reset(self) -> None:
        if self.protected_size > 0:
            raise RuntimeError(
                f"can't reset: {self.protected_size} tokens are locked by live requests."
            )
        self.evictable_size = 0
        self._clock = 0
        self._next_uuid = 0
        self.root_node = self._number(RadixTreeNode(self.key_fn))
        self.root_node.set_key_value(torch.empty(0, dtype=torch.int32), self.empty_tensor)
        self.root_node.ref_count = 1  # NOTE: always locked, so never a candidate for eviction

    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        assert isinstance(handle, RadixCacheHandle)
        if not unlock:
            self._check_attached(handle.node)
        for node in _path(handle.node):
            if unlock:
                if node.ref_count <= 0:
                    raise RuntimeError(
                        f"node {node.uuid} is unlocked more often than it was locked."
                    )
                node.ref_count -= 1
                if node.ref_count == 0:
                    self._move(node.length)
            else:
                if node.ref_count == 0:
                    self._move(-node.length)
                node.ref_count += 1
        if self.hooks.active:
            self.hooks.emit("on_unlock" if unlock else "on_lock", handle)

    def match_prefix(self, input_ids: torch.Tensor) -> MatchResult:
        node, prefix_len = self._tree_walk(input_ids)
        return MatchResult(RadixCacheHandle(prefix_len, node))

    def insert_prefix(self, input_ids: torch.Tensor, indices: torch.Tensor) -> InsertResult:
        check_insert(input_ids, indices)
        insert_len = align_down(len(input_ids), self.page_size)
        input_ids, indices = input_ids[:insert_len], indices[:insert_len]
        node, prefix_len = self._tree_walk(input_ids)
        if prefix_len < insert_len:
            node = self._add_leaf(node, input_ids[prefix_len:], indices[prefix_len:].clone())
        return InsertResult(prefix_len, RadixCacheHandle(insert_len, node))

    def evict(self, size: int) -> torch.Tensor:
        check_evict(size)
        if size > self.evictable_size:
            raise RuntimeError(
                f"can't evict {size} tokens: {self.evictable_size} are evictable,"
                f" {self.protected_size} protected."
            )
        leaves = self._collect_leave_nodes_for_evict() if size > 0 else []
        heapq.heapify(leaves)
        evicted: list[torch.Tensor] = []
        evicted_size = 0
        while evicted_size < size:
            node = heapq.heappop(leaves)
            evicted.append(node.value)
            evicted_size += node.length
            self._remove_leaf(node)
            if node.parent.is_leaf() and node.parent.ref_count == 0:
                heapq.heappush(leaves, node.parent)
        return torch.cat(evicted) if evicted else self.empty_tensor

    @property
    def size_info(self) -> SizeInfo:
        return SizeInfo(self.evictable_size, self.protected_size)

    def nodes(self) -> Iterator[RadixTreeNode]:
        """All nodes but the root, parents before children."""
        stack = list(self.root_node.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def check_integrity(self) -> None:
        evictable = protected = 0
        owner: dict[int, int] = {}
        for node in self.nodes():
            if node.parent.children.get(self.key_fn(node._key)) is not node:
                raise RuntimeError(f"node {node.uuid} does not hang where its key belongs.")
            if node.length == 0 or node.length % self.page_size != 0:
                raise RuntimeError(f"node {node.uuid} holds {node.length} tokens, not whole pages.")
            if not node.parent.is_root() and node.ref_count > node.parent.ref_count:
                raise RuntimeError(
                    f"node {node.uuid} is locked {node.ref_count} times, its parent"
                    f" {node.parent.uuid} {node.parent.ref_count} times."
                )
            for slot in node.value.tolist():
                if slot in owner:
                    raise RuntimeError(
                        f"slot {slot} stands in nodes {owner[slot]} and {node.uuid}."
                    )
                owner[slot] = node.uuid
            evictable += node.length if node.ref_count == 0 else 0
            protected += node.length if node.ref_count > 0 else 0
        if self.size_info != (evictable, protected):
            raise RuntimeError(
                f"the counters say evictable {self.evictable_size}, protected"
                f" {self.protected_size}; the nodes hold {evictable} and {protected}."
            )

    def _check_attached(self, node: RadixTreeNode) -> None:
        """Only leaves are evicted: a node that its parent knows has all its ancestors, too."""
        if node.is_root():
            top = node
        elif node.parent.children.get(self.key_fn(node._key)) is not node:
            raise RuntimeError(
                f"node {node.uuid} was evicted since it was matched; match the prefix anew."
            )
        else:
            *_, top = (step.parent for step in _path(node))
        if top is not self.root_node:
            raise RuntimeError(
                f"node {node.uuid} is not of this cache, or of its time before a reset."
            )

    def _collect_leave_nodes_for_evict(self) -> list[RadixTreeNode]:
        return [node for node in self.nodes() if node.is_leaf() and node.ref_count == 0]

    def _tree_walk(self, input_ids: torch.Tensor) -> tuple[RadixTreeNode, int]:
        """The node that ends the longest known prefix, split if need be, and that length."""
        tic = self._tick()
        node, prefix_len = self.root_node, 0
        touched: list[RadixTreeNode] = []
        while len(input_ids) - prefix_len >= self.page_size:
            child = node.children.get(self.key_fn(input_ids[prefix_len:]))
            if child is None:
                break
            match_len = align_down(child.get_match_len(input_ids[prefix_len:]), self.page_size)
            prefix_len += match_len
            partial = match_len < child.length
            node = self._split(child, match_len) if partial else child
            self._use(node, tic, partial)
            if node.timestamp == tic:
                touched.append(node)
            if partial:
                break
        if self.hooks.active:
            self.hooks.emit("on_walk", touched, tic)
        return node, prefix_len

    def _use(self, node: RadixTreeNode, tic: int, partial: bool) -> None:
        """Give the walk's time to what it matched; a partial hit counts as well."""
        node.timestamp = tic

    def _split(self, node: RadixTreeNode, pos: int) -> RadixTreeNode:
        upper = self._number(node.split_at(pos))
        if self.hooks.active:
            self.hooks.emit("on_node_split", upper, node)
        return upper

    def _add_leaf(
        self, parent: RadixTreeNode, key: torch.Tensor, value: torch.Tensor
    ) -> RadixTreeNode:
        node = self._number(RadixTreeNode(self.key_fn, self._tick()))
        node.set_key_value(key.clone(), value)
        node.set_parent(parent)
        self.evictable_size += node.length
        if self.hooks.active:
            self.hooks.emit("on_node_add", node)
        return node

    def _remove_leaf(self, node: RadixTreeNode) -> None:
        assert node.ref_count == 0 and node.is_leaf() and not node.is_root()
        del node.parent.children[self.key_fn(node._key)]
        self.evictable_size -= node.length
        if self.hooks.active:
            self.hooks.emit("on_node_evict", node)

    def _move(self, tokens: int) -> None:
        """From protected to evictable; negative: the other way."""
        self.evictable_size += tokens
        self.protected_size -= tokens

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _number(self, node: RadixTreeNode) -> RadixTreeNode:
        node.uuid = self._next_uuid
        self._next_uuid += 1
        return node


def _path(node: RadixTreeNode) -> Iterator[RadixTreeNode]:
    """``node`` and its ancestors up to, not including, the root."""
    while not node.is_root():
        yield node
        node = node.parent


def _get_key_fn(page_size: int) -> KEY_FN:
    """Children are found by the first page of their key."""
    if page_size == 1:
        return lambda ids: ids[0].item()
    return lambda ids: tuple(ids[:page_size].tolist())
