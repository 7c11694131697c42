"""A Triton launch as a value: made in one place, run on a GPU, or compiled for one that isn't here.

The tests compile every launch ahead of time for several GPUs from exactly what would be launched.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Launch(NamedTuple):
    """One kernel with its grid, its run-time arguments, its constants and its resources."""

    kernel: Any  # a triton.jit function
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    constants: dict[str, Any]
    warps: int = 4
    stages: int = 1

    def run(self) -> None:
        """On the current stream of the current device. Returns before the kernel has run."""
        self.kernel[self.grid](
            *self.args, **self.constants, num_warps=self.warps, num_stages=self.stages
        )
