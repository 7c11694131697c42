"""Pages out, pages in, and the prefix cache between them (mini-sglang: scheduler/cache.py)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

from ..core import Context, Req, use_ctx
from ..distributed import get_tp_info
from ..hooks import NO_HOOKS, Hooks, Release
from ..kvcache import BaseCacheHandle, MatchResult, create_prefix_cache
from ..utils import div_ceil
from ..utils.tensors import to_device
from .integrity import check_integrity
from .utils import PendingReq

Span = tuple[Req, int, int]
"""Request, first page, last page (not included), counted within the request."""


class CacheManager:
    """Owns the pages 0 .. num_pages - 1 of the pool on behalf of the scheduler.

    Each page is in exactly one place: in ``free_slots``, in the prefix cache, or in one live
    request's own part of its table row. ``free_slots`` is a queue of page starts: taken at the
    head, returned at the tail.
    """

    def __init__(self, num_pages: int, page_size: int, page_table: torch.Tensor, type: str) -> None:
        for name, value in (("num_pages", num_pages), ("page_size", page_size)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} {value!r} is not allowed: a whole number of 1 or more.")
        self.device = page_table.device
        self.num_pages = num_pages
        self.page_size = page_size
        self.page_table = page_table
        self._queue = deque(range(0, num_pages * page_size, page_size))
        self._lazy: list[int] | None = None
        self._spans: list[Span] = []
        self._hooks = NO_HOOKS
        with use_ctx(Context(page_size, tp_info=get_tp_info())):
            self.prefix_cache = create_prefix_cache(device=self.device, type=type)

    @property
    def hooks(self) -> Hooks:
        return self._hooks

    @hooks.setter
    def hooks(self, hooks: Hooks) -> None:
        self._hooks = self.prefix_cache.hooks = hooks

    @property
    def free_slots(self) -> torch.Tensor:
        """The queue from head to tail: (free pages,) int32 page starts, a copy. Can be set."""
        return torch.tensor(self._queue, dtype=torch.int32, device=self.device)

    @free_slots.setter
    def free_slots(self, page_starts: torch.Tensor) -> None:
        before, self._queue = len(self._queue), deque(page_starts.tolist())
        if self.hooks.active:
            self.hooks.emit("on_free_slots_set", before, list(self._queue))

    @property
    def available_size(self) -> int:
        """Tokens that can be had: free pages, and those that eviction would give."""
        return len(self._queue) * self.page_size + self.prefix_cache.size_info.evictable_size

    def match_req(self, req: PendingReq) -> MatchResult:
        """The longest cached prefix of the prompt without its last token.

        NOTE: the last prompt token is always computed; its logits choose the first output.
        """
        if req.input_len == 0:
            raise ValueError(f"request {req.uid} has an empty prompt; there is nothing to match.")
        return self.prefix_cache.match_prefix(req.input_ids[: req.input_len - 1])

    def reset(self) -> None:
        """Forget all prefixes; their pages join the tail of the queue, least recently used first.

        Raises:
            RuntimeError: live requests hold some of them; nothing is changed.
        """
        evictable, protected = self.prefix_cache.size_info
        if protected > 0:
            raise RuntimeError(f"can't reset: {protected} tokens are locked by live requests.")
        if evictable > 0:
            self._evict(evictable)

    def lock(self, handle: BaseCacheHandle) -> None:
        self.prefix_cache.lock_handle(handle, unlock=False)

    def unlock(self, handle: BaseCacheHandle) -> None:
        self.prefix_cache.lock_handle(handle, unlock=True)

    def allocate_paged(self, reqs: list[Req]) -> None:
        """Give each request the pages that [cached_len, device_len) begins, and write its row.

        Nothing is taken while a request's last page has room. Evicts when the queue is short.

        Raises:
            RuntimeError: not enough pages even then; nothing is changed.
        """
        page_size = self.page_size
        spans: list[Span] = []
        for req in reqs:
            first, last = div_ceil(req.cached_len, page_size), div_ceil(req.device_len, page_size)
            if last > first:
                spans.append((req, first, last))
        if not spans:
            return
        info = [(req.table_idx, first, last) for req, first, last in spans]
        _check_spans(self.page_table, info, page_size)
        pages = self._allocate(sum(last - first for _, first, last in spans))
        _write_page_table(self.page_table, self._page_to_token(pages), info, page_size)
        self._spans = spans
        if self.hooks.active:
            self.hooks.emit("on_allocate", spans, pages.tolist())

    def settle(self) -> None:
        """The step is launched: what ``allocate_paged`` gave can't be taken back any more."""
        self._spans = []

    def take_back(self) -> None:
        """Return what ``allocate_paged`` gave for a step that failed before its launch."""
        spans, self._spans = self._spans, []
        for req, first, last in spans:
            start, end = first * self.page_size, last * self.page_size
            self._free(self.page_table[req.table_idx, start:end])

    def cache_req(self, req: Req, *, finished: bool) -> None:
        """Register the whole pages of [0, cached_len) and return what can't stay.

        ::

            0    old_handle.cached_len   cached_len   new_handle.cached_len   req.cached_len
            |--- matched ---|--- duplicate ---|--- newly registered ---|--- tail ---|
                 unlock            free            keep, now shared      finished: free

        The tail is what fills no whole page. ``finished``: the request ended or was cancelled.
        Otherwise it lives on under the new, locked handle and keeps its tail, and its row is
        pointed at the cached copy of the duplicate part.
        """
        page_size = self.page_size
        end = div_ceil(req.cached_len, page_size) * page_size
        row = self.page_table[req.table_idx]
        slots = row[:end].clone()  # NOTE: copied, because the row is about to change
        old_handle = req.cache_handle
        cached_len, new_handle = self.prefix_cache.insert_prefix(
            req.input_ids[: req.cached_len], slots[: req.cached_len]
        )
        old_len, new_len = old_handle.cached_len, new_handle.cached_len
        self.unlock(old_handle)
        if not finished:
            self.lock(new_handle)
            req.cache_handle = new_handle
        duplicate = cached_len > old_len
        remapped = None
        if duplicate and not finished:
            remapped = self._remap(row, new_handle, old_len, cached_len)
        if self.hooks.active:
            release = Release(
                req,
                finished,
                old_len,
                cached_len,
                new_len,
                end,
                slots.tolist(),
                remapped,
                new_handle,
            )
            self.hooks.emit("on_release", release)
        if duplicate:
            self._free(slots[old_len:cached_len])
        if finished:
            self._free(slots[new_len:])

    def check_integrity(self, live: Iterable[Req] = (), *, prepared: Iterable[Req] = ()) -> None:
        """Raises RuntimeError, naming the slot or node, unless every slot has exactly one owner.

        ``live``: all live requests; ``prepared``: those of them that have pages for a step that is
        not launched yet.
        """
        check_integrity(self, list(live), list(prepared))

    @contextmanager
    def lazy_free_region(self) -> Iterator[None]:
        """Collect what is freed inside; it joins the queue's tail at the end, in call order."""
        assert self._lazy is None, "lazy_free_region does not nest"
        self._lazy = []
        try:
            yield
        finally:
            freed, self._lazy = self._lazy, None
            self._append(freed)

    def _remap(
        self, row: torch.Tensor, handle: BaseCacheHandle, start: int, end: int
    ) -> list[int] | None:
        """Point [start, end) of a living row at the cached slots, since its own go back."""
        cached = handle.get_matched_indices()[start:end]
        row[start:end] = cached
        return cached.tolist() if self.hooks.active else None

    def _allocate(self, needed_pages: int) -> torch.Tensor:
        """Take page starts, (needed_pages,) int32, from the head; evict when the queue is short."""
        missing = needed_pages - len(self._queue)
        if missing > 0:
            self._evict(missing * self.page_size)
        taken = [self._queue.popleft() for _ in range(needed_pages)]
        return to_device(taken, torch.int32, self.device)

    def _evict(self, size: int) -> None:
        """Move at least ``size`` tokens' pages from the prefix cache to the tail of the queue."""
        pages = self.prefix_cache.evict(size)[:: self.page_size].tolist()
        self._queue.extend(pages)
        if self.hooks.active:
            self.hooks.emit("on_evict", pages)

    def _free(self, indices: torch.Tensor) -> None:
        """Return whole pages, given as their token slots in order: (pages·P,)."""
        pages = indices[:: self.page_size].tolist()
        if self._lazy is not None:
            self._lazy.extend(pages)
        else:
            self._append(pages)

    def _append(self, pages: list[int]) -> None:
        self._queue.extend(pages)
        if pages and self.hooks.active:
            self.hooks.emit("on_free", pages)

    def _page_to_token(self, pages: torch.Tensor) -> torch.Tensor:
        """Expand page starts, (n,), into all their token slots in order, (n·P,) int32."""
        if self.page_size == 1:
            return pages
        offsets = torch.arange(self.page_size, dtype=torch.int32, device=self.device)
        return (pages.unsqueeze(1) + offsets).flatten()


def _write_page_table(
    page_table: torch.Tensor,
    allocated: torch.Tensor,
    allocation_info: list[tuple[int, int, int]],
    page_size: int,
) -> None:
    """Write ``allocated`` slots, in order, to the pages ``(row, first_page, last_page)``.

    Raises:
        ValueError: a row or page lies outside the table, or the slots are more or fewer.
    """
    _check_spans(page_table, allocation_info, page_size)
    rows: list[int] = []
    cols: list[int] = []
    for row, first, last in allocation_info:
        rows.extend([row] * ((last - first) * page_size))
        cols.extend(range(first * page_size, last * page_size))
    if len(rows) != len(allocated):
        raise ValueError(f"{len(allocated)} slots can't fill {len(rows)} places.")
    device = page_table.device
    where = (to_device(rows, torch.int64, device), to_device(cols, torch.int64, device))
    page_table[where] = allocated


def _check_spans(
    page_table: torch.Tensor, allocation_info: list[tuple[int, int, int]], page_size: int
) -> None:
    height, width = page_table.shape
    for row, first, last in allocation_info:
        if not (0 <= row < height and 0 <= first <= last and last * page_size <= width):
            raise ValueError(
                f"row {row}, pages [{first}, {last}) of {page_size} tokens are outside the page"
                f" table of {height} rows and {width} columns."
            )
