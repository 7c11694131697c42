"""Calls this package's hooks for mini-sglang's managers, which have none.

Each of their methods runs as it is; what it took, gave and changed is read off around the call. So
a recorder or a sanitizer sees the published scheduler as it sees ours, event by event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import torch

from ..hooks import Hooks, Release
from ..utils import div_ceil

if TYPE_CHECKING:
    from .reference import ReferenceScheduler


def around(owner: Any, name: str, watcher: Callable[..., Any]) -> None:
    """From now on ``owner.name(…)`` is ``watcher(the original method, …)``."""
    original = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        return watcher(original, *args, **kwargs)

    setattr(owner, name, call)


class Watch:
    """Everything that is put around the managers and the loop of one ``ReferenceScheduler``."""

    def __init__(self, scheduler: ReferenceScheduler) -> None:
        self.scheduler = scheduler
        self.manager: Any = scheduler.cache_manager
        self.cache: Any = self.manager.prefix_cache
        self.nodes = scheduler.minisgl.radix_cache.RadixTreeNode
        self.told: dict[tuple[int, int], str | None] = {}
        """(uid, token) -> why it was the last, or None; taken out when the reply is sent."""
        self._inserted: Any = None
        self._matched_len = 0
        self._under_lock: int | None = None
        """What was available when the last matched prefix had been locked."""
        self._num_batches = 0
        for name in ("_process_one_msg", "_prepare_batch", "_forward", "_process_last_data"):
            around(scheduler.inner, name, getattr(self, name))
        for name in ("match_req", "allocate_paged", "cache_req", "lazy_free_region"):
            around(self.manager, name, getattr(self, name))
        for name in ("allocate", "free"):
            around(scheduler.table_manager, name, getattr(self, f"row_{name}"))
        around(self.cache, "insert_prefix", self.insert_prefix)
        if hasattr(self.cache, "root_node"):
            for name in ("_tree_walk", "lock_handle", "evict"):
                around(self.cache, name, getattr(self, name))

    @property
    def hooks(self) -> Hooks:
        return self.scheduler.hooks

    def tell(self, event: str, *args: Any) -> None:
        if self.hooks.active:
            self.hooks.emit(event, *args)

    # ---- the loop ------------------------------------------------------------------------------

    def _process_one_msg(self, original: Callable[..., None], msg: Any) -> None:
        waiting = self.scheduler.prefill_manager.pending_list
        if not hasattr(msg, "input_ids"):
            self._tell_abort(msg.uid)
        before = len(waiting)
        original(msg)
        if hasattr(msg, "input_ids"):
            if len(waiting) > before:
                self.tell("on_receive", waiting[-1])
            else:
                self.tell("on_reject", msg.uid, "error: dropped without an answer")

    def _tell_abort(self, uid: int) -> None:
        pending = [p for p in self.scheduler.prefill_manager.pending_list if p.uid == uid]
        running = [r for r in self.scheduler.decode_manager.running_reqs if r.uid == uid]
        held = pending[0].chunked_req if pending else None
        if pending or running:
            self.tell("on_abort", uid, held or (running[0] if running else None))

    def _prepare_batch(self, original: Callable[..., Any], batch: Any) -> Any:
        batch.batch_id, self._num_batches = self._num_batches, self._num_batches + 1
        forward_input = original(batch)
        self.tell("on_prepare", forward_input)
        return forward_input

    def _forward(self, original: Callable[..., Any], forward_input: Any) -> Any:
        batch = forward_input.batch
        self.tell("on_launch", batch, batch.batch_id)
        output = original(forward_input)
        self.scheduler._launched.append(batch)
        self.tell("on_forward_done", batch, batch.batch_id)
        return output

    def _process_last_data(self, original: Callable[..., None], last_data: Any) -> None:
        if last_data is not None:
            batch, output = last_data[0].batch, last_data[1]
            output.copy_done_event.synchronize()
            tokens = output.next_tokens_cpu.tolist()
            self.tell("on_result", batch, batch.batch_id, tokens)
            self.scheduler._launched.remove(batch)
            for req in batch.reqs:
                if not self._is_chunk(req):
                    around(req, "append_host", self._shows_a_token(req))
        original(last_data)

    def _shows_a_token(self, req: Any) -> Callable[..., None]:
        """The published loop appends a token to its request, then decides whether it is the last.

        NOTE: what it decides is told here before the release that follows, so it is worked out once
        more; ``ReferenceScheduler`` holds it against the reply.
        """

        def append_host(original: Callable[..., None], next_token: torch.Tensor) -> None:
            del req.append_host
            original(next_token)
            token = int(next_token)
            stopped = token == self.scheduler.inner.eos_token_id
            stopped = stopped and not req.sampling_params.ignore_eos
            reason = "stop" if stopped else None if req.can_decode else "length"
            self.told[req.uid, token] = reason
            self.tell("on_token", req, token, reason is not None, reason)

        return append_host

    def _is_chunk(self, req: Any) -> bool:
        return isinstance(req, self.scheduler.minisgl.prefill.ChunkedReq)

    # ---- admission -----------------------------------------------------------------------------

    def adder(self) -> type:
        """A ``PrefillAdder`` that tells whom it took and whom it refused."""
        watch = self

        class WatchedAdder(self.scheduler.minisgl.prefill.PrefillAdder):  # type: ignore[name-defined]
            def try_add_one(self, pending_req: Any) -> Any:
                req = super().try_add_one(pending_req)
                if req is not None:
                    watch.tell("on_admit", req, pending_req, _matched(req, pending_req))
                elif self.token_budget > 0:
                    watch.tell("on_refuse", pending_req, *watch.refusal(self, pending_req))
                return req

        return WatchedAdder

    def refusal(self, adder: Any, pending: Any) -> tuple[int, int, int, str]:
        """(need, reserved, available, why) of a request that was just refused."""
        no_row = self.scheduler.table_manager.available_size == 0
        need = 0 if no_row else pending.input_len + pending.output_len - self._matched_len
        why = "rows" if no_row else "pages"
        available = None if no_row else self._under_lock
        if available is None:
            available = self.manager.available_size
        return need, adder.reserved_size, available, why

    def match_req(self, original: Callable[..., Any], req: Any) -> Any:
        result = original(req)
        self._matched_len = result.cuda_handle.cached_len
        self._under_lock = None
        self.tell("on_match", req, result.cuda_handle)
        return result

    # ---- pages and rows ------------------------------------------------------------------------

    def allocate_paged(self, original: Callable[..., None], reqs: list[Any]) -> None:
        size, table = self.manager.page_size, self.manager.page_table
        spans = [
            (req, div_ceil(req.cached_len, size), div_ceil(req.device_len, size)) for req in reqs
        ]
        original(reqs)
        spans = [span for span in spans if span[2] > span[1]]
        if spans:
            pages: list[int] = []
            for req, first, last in spans:
                pages += table[req.table_idx, first * size : last * size : size].tolist()
            self.tell("on_allocate", spans, pages)

    def cache_req(self, original: Callable[..., None], req: Any, *, finished: bool) -> None:
        end = div_ceil(req.cached_len, self.manager.page_size) * self.manager.page_size
        slots = self.manager.page_table[req.table_idx, :end].tolist()
        old_len, free = req.cache_handle.cached_len, len(self.manager.free_slots)
        original(req, finished=finished)
        dup_end, handle = self._inserted
        release = Release(
            req, finished, old_len, dup_end, handle.cached_len, end, slots, None, handle
        )
        self.tell("on_release", release)
        self._tell_freed(free)

    def lazy_free_region(
        self, original: Callable[[], AbstractContextManager[None]]
    ) -> AbstractContextManager[None]:
        @contextmanager
        def region() -> Iterator[None]:
            free = len(self.manager.free_slots)
            with original():
                yield
            self._tell_freed(free)

        return region()

    def _tell_freed(self, before: int) -> None:
        freed = self.manager.free_slots[before:].tolist()
        if freed:
            self.tell("on_free", freed)

    def row_allocate(self, original: Callable[[], int]) -> int:
        row = original()
        self.tell("on_row", row, True)
        return row

    def row_free(self, original: Callable[[int], None], slot: int) -> None:
        original(slot)
        self.tell("on_row", slot, False)

    # ---- the tree ------------------------------------------------------------------------------

    def _tree_walk(self, original: Callable[..., Any], input_ids: torch.Tensor) -> Any:
        nodes = self.nodes.counter
        node, length = original(input_ids)
        if self.nodes.counter > nodes:
            self.tell("on_node_split", node, next(iter(node.children.values())))
        tick = self.scheduler.clock.now
        touched = [step for step in _path(node) if step.timestamp == tick]
        self.tell("on_walk", touched[::-1], tick)
        return node, length

    def insert_prefix(
        self, original: Callable[..., Any], input_ids: torch.Tensor, indices: torch.Tensor
    ) -> Any:
        self._inserted = result = original(input_ids, indices)
        if result.cached_len < result.handle.cached_len:
            self.tell("on_node_add", result.handle.node)
        return result

    def lock_handle(self, original: Callable[..., None], handle: Any, unlock: bool = False) -> None:
        original(handle, unlock)
        if not unlock:
            self._under_lock = self.manager.available_size
        self.tell("on_unlock" if unlock else "on_lock", handle)

    def evict(self, original: Callable[[int], torch.Tensor], size: int) -> torch.Tensor:
        before = list(_all_nodes(self.cache.root_node))
        evicted = original(size)
        kept = set(_all_nodes(self.cache.root_node))
        slots = evicted.tolist()
        for node in _in_order([node for node in before if node not in kept], slots):
            self.tell("on_node_evict", node)
        if slots:
            self.tell("on_evict", slots[:: self.manager.page_size])
        return evicted


def _in_order(gone: list[Any], slots: list[int]) -> Iterator[Any]:
    """The evicted nodes in the order of their slots.

    NOTE: in a tree that is wrong already, two nodes may hold the same slots.
    """
    at = 0
    while at < len(slots):
        node = next(n for n in gone if n.value.tolist() == slots[at : at + n.length])
        gone.remove(node)
        at += node.length
        yield node


def _matched(req: Any, pending: Any) -> list[int] | None:
    """The matched slots of a request that was taken; None for a continued chunk."""
    if pending.chunked_req is not None:
        return None
    handle = req.cache_handle
    return handle.get_matched_indices().tolist() if handle.cached_len > 0 else []


def _path(node: Any) -> Iterator[Any]:
    while not node.is_root():
        yield node
        node = node.parent


def _all_nodes(root: Any) -> Iterator[Any]:
    stack = list(root.children.values())
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children.values())
