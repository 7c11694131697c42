"""Ctrl-C between two turns, never inside one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Hold a SIGINT back until the block is done, then raise KeyboardInterrupt.

    A turn changes the owners of pages in several places; interrupted half-way it would lose some.
    A second Ctrl-C breaks through. Outside the main thread, where no signal arrives, this does
    nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = False

    def note(signum: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            raise KeyboardInterrupt
        seen = True

    former = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
    if seen:
        raise KeyboardInterrupt
