"""Is this JSON a run that can be replayed? Asked once, when a trace is read from outside.

A digest shows that a file was edited, not that its writer meant well: anybody can compute one. So
sizes are bounded before anything is made of them, and the frames are replayed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .events import PHASES
from .replay import State

LARGEST = {"page_size": 2**16, "num_pages": 2**24, "rows": 2**16, "width": 2**24}
"""What each size of a run may be at most; one engine's page table fits many times over."""

_FOUND_IN_BAD_DATA = (
    ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError,
)  # fmt: skip


def _whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def check_meta(meta: Any) -> None:
    """Raises ValueError, naming the entry, unless ``meta`` has the sizes of a run."""
    if not isinstance(meta, dict):
        raise ValueError("meta is no object")
    for key, largest in LARGEST.items():
        if not _whole(meta.get(key), 1, largest):
            raise ValueError(f"meta.{key} is {meta.get(key)!r}, allowed: 1 to {largest:,}")
    if meta["num_pages"] * meta["page_size"] > 2**26 or meta["rows"] * meta["width"] > 2**28:
        raise ValueError("meta describes a pool or page_table larger than any run's")


def check_frames(meta: dict[str, Any], frames: Any) -> None:
    """Raises ValueError, naming the frame, unless the frames can be played from first to last."""
    if not isinstance(frames, list):
        raise ValueError("frames is no list")
    state = State(meta)
    slots = (meta["num_pages"] + 1) * meta["page_size"]
    for index, frame in enumerate(frames):
        try:
            _check_frame(frame, slots)
            state.apply(frame)
        except _FOUND_IN_BAD_DATA as error:
            raise ValueError(f"frame {index} can't be replayed ({error})") from None


def _check_frame(frame: dict[str, Any], slots: int) -> None:
    if frame["phase"] not in PHASES:
        raise ValueError(f"phase {frame['phase']!r} is unknown")
    for key in ("turn", "sub", "rank"):
        if not _whole(frame[key], 0, 2**53):
            raise ValueError(f"{key} is {frame[key]!r}")
    for first, count in _runs(frame):
        if not (_whole(first, 0, slots - 1) and _whole(count, 1, slots - first)):
            raise ValueError(f"slots [{first!r}, {count!r}] are not in the pool")


def _runs(frame: dict[str, Any]) -> Iterator[list[int]]:
    """All runs of slots that a frame carries."""
    for _, _, runs in frame.get("table", ()):
        yield from runs
    for op in frame.get("tree", ()):
        yield from op[4] if op[0] == "add" else ()
    yield from frame.get("batch_info", {}).get("out_loc", ())
    for release in frame.get("release", ()):
        for _, _, _, runs in release["ranges"]:
            yield from runs
        yield from release["remapped"] or ()
