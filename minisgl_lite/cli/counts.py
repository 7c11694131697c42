"""What a run cost, in one line."""

from __future__ import annotations

import time

from minisgl_lite.core import Req
from minisgl_lite.hooks import Listener
from minisgl_lite.llm import LLM
from minisgl_lite.scheduler.utils import PendingReq


class Counts(Listener):
    """Counts from ``with Counts(llm)`` on; the caller counts ``tokens`` as they are shown.

    ``peak_pages``: the most pages that were not free at once, with those the prefix cache keeps.
    ``reused``: prompt tokens whose K/V the prefix cache had.
    """

    def __init__(self, llm: LLM) -> None:
        self.tokens = 0
        self.peak_pages = 0
        self.reused = 0
        self._llm = llm
        self._start = time.perf_counter()

    def __enter__(self) -> Counts:
        self._llm.hooks.attach(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._llm.hooks.detach(self)

    def on_admit(self, req: Req, pending: PendingReq, matched_slots: list[int] | None) -> None:
        self.reused += len(matched_slots or ())

    def on_allocate(self, spans: list[tuple[Req, int, int]], page_starts: list[int]) -> None:
        manager = self._llm.cache_manager
        self.peak_pages = max(self.peak_pages, manager.num_pages - len(manager.free_slots))

    def line(self) -> str:
        seconds = time.perf_counter() - self._start
        num_pages = self._llm.cache_manager.num_pages
        return (
            f"{self.tokens} tokens, {self.peak_pages} of {num_pages} pages used at most,"
            f" {self.reused} prefix tokens reused, {self.tokens / seconds:.1f} tokens/s"
        )
