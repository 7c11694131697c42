"""The order of work on a device, as the scheduler sees it.

A scheduler never touches the device's data at once: it *issues* work, which runs in the order of
issue. On a CPU that is now; on CUDA it is a stream; a test's device may hold everything back until
the host waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch


class Stream(Protocol):
    """A queue of work on one device."""

    def issue(self, work: Callable[[], None]) -> None:
        """Run ``work`` after everything issued before it."""

    def wait_stream(self, other: torch.cuda.Stream | None) -> None:
        """Let later work wait for what the host's own stream ``other`` was given so far."""


class HostStream:
    """A CPU is its own device: work runs at once."""

    def issue(self, work: Callable[[], None]) -> None:
        work()

    def wait_stream(self, other: torch.cuda.Stream | None) -> None:
        pass


class CudaStream:
    """A CUDA stream of its own, apart from the scheduler's."""

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device=device)

    def issue(self, work: Callable[[], None]) -> None:
        with torch.cuda.stream(self.stream):
            work()

    def wait_stream(self, other: torch.cuda.Stream | None) -> None:
        if other is not None:
            self.stream.wait_stream(other)


class CopyDone(Protocol):
    """Tells when the host may read what was copied to it."""

    def synchronize(self) -> None: ...


class DoneEvent:
    """On a CPU the copy is done when it is made."""

    def synchronize(self) -> None:
        pass
