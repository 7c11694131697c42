"""Ctrl-C between two turns, never inside one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Hold a SIGINT back until the block is done, then hand it to whoever would have had it.

    A turn changes the owners of pages in several places; interrupted half-way it would lose some.
    Outside the main thread, where no signal arrives, and where SIGINT is ignored or not Python's,
    this does nothing.
    """
    former = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or former in (None, signal.SIG_IGN, signal.SIG_DFL):
        yield
        return
    seen = False

    def note(signum: int, frame: FrameType | None) -> None:
        nonlocal seen
        seen = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
    if seen and callable(former):
        former(signal.SIGINT, None)
