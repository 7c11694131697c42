"""Records a script: the same small run on our engine, with published behaviours, or on theirs.

A script is a Python file that plays one ``Toy``, imported from ``minisgl_lite.toy``. Which
scheduler that Toy drives is chosen here, not in the script.
"""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from .. import toy
from ..hooks import HookError
from ..trace import Recorder, Trace
from .clone import load_minisgl
from .published import published_scheduler
from .reference import reference_scheduler


class Recorded(NamedTuple):
    """What a script did. ``error``: what left the scheduler's loop and ended it, or None."""

    trace: Trace
    error: str | None


def record_script(
    script: str | Path,
    *,
    minisgl: str | Path | None = None,
    behaviours: Sequence[str] = (),
    sort: bool = True,
) -> Recorded:
    """Run ``script`` and return the trace of its Toy, up to an error if one ends the run.

    ``minisgl``: the clone whose scheduler is to be recorded; else ours is, with ``behaviours``.
    ``sort``: decode batches in order of uid, so that the order of a set does not show.

    Raises:
        ValueError: no such file; it makes no Toy, or several; both sides are asked for.
    """
    if not Path(script).is_file():
        raise ValueError(f"there is no script {script}.")
    if minisgl is not None and behaviours:
        raise ValueError("mini-sglang has its behaviours already: give either it or behaviours.")
    made: list[Recorder] = []
    base = _base(minisgl, behaviours)

    class RecordedToy(base):  # type: ignore[valid-type,misc]
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            if sort:
                _sort_decode_batches(self)
            made.append(Recorder(self))

    with patch.object(toy, "Toy", RecordedToy):
        error = _run(Path(script))
    if len(made) != 1:
        raise ValueError(f"{script} makes {len(made)} Toys; a script plays one.")
    return Recorded(made[0].trace(), error)


def _base(minisgl: str | Path | None, behaviours: Sequence[str]) -> type[toy.Toy]:
    if minisgl is not None:
        return reference_scheduler(load_minisgl(minisgl), base=toy.Toy)
    return published_scheduler(*behaviours, base=toy.Toy)


def _run(script: Path) -> str | None:
    try:
        runpy.run_path(str(script), run_name="__main__")
    except HookError:
        raise
    except (AssertionError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}".rstrip(": ")
    return None


def _sort_decode_batches(scheduler: toy.Toy) -> None:
    manager: Any = scheduler.decode_manager
    schedule = manager.schedule_next_batch

    def schedule_next_batch() -> Any:
        batch = schedule()
        if batch is not None:
            batch.reqs.sort(key=lambda req: req.uid)
        return batch

    manager.schedule_next_batch = schedule_next_batch
