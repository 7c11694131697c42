"""Records a script: the same small run on our engine, with published behaviours, or on theirs.

A script is a Python file that plays one ``Toy``, imported from ``minisgl_lite.toy``. Which
scheduler that Toy drives is chosen here, not in the script. Some come with the package:
``scripts/`` has one for each published behaviour, under its name.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from .. import toy
from ..hooks import HookError
from ..trace import KVSanitizer, Recorder, Trace
from ..trace.faults import Fault
from .clone import load_minisgl
from .published import published_scheduler
from .reference import reference_scheduler

SCRIPTS = Path(__file__).parent / "scripts"


class Recorded(NamedTuple):
    """What a script did.

    ``error``: what left the scheduler's loop and ended it, or None. ``faults``: what the sanitizer
    found, if it was asked for.
    """

    trace: Trace
    error: str | None
    faults: tuple[Fault, ...] = ()


def find_script(script: str | Path) -> Path:
    """The file ``script``; or, where there is no such file, the package's own of that name.

    ``stale-rows`` and ``stale_rows.py`` both name ``scripts/stale_rows.py``.

    Raises:
        ValueError: there is neither.
    """
    if Path(script).is_file():
        return Path(script)
    own = SCRIPTS / f"{str(script).removesuffix('.py').replace('-', '_')}.py"
    if own.parent == SCRIPTS and own.is_file():
        return own
    known = ", ".join(sorted(path.stem.replace("_", "-") for path in SCRIPTS.glob("*.py")))
    raise ValueError(f"there is no script {script}; the package's own are: {known}.")


def record_script(
    script: str | Path,
    *,
    minisgl: str | Path | None = None,
    behaviours: Sequence[str] = (),
    check: bool = False,
    sort: bool = True,
) -> Recorded:
    """Run ``script`` and return the trace of its Toy, up to an error if one ends the run.

    ``script``: see ``find_script``. ``minisgl``: the clone whose scheduler is to be recorded; else
    ours is, with ``behaviours``. ``check``: the KV sanitizer watches, and what it finds becomes
    ``fault`` entries of the trace; it stops nothing. ``sort``: decode batches in order of uid, so
    that the order of a set does not show.

    Errors of the script itself pass through.

    Raises:
        ValueError: no such script; it makes no Toy, or several; both sides are asked for.
    """
    path = find_script(script)
    if minisgl is not None and behaviours:
        raise ValueError("mini-sglang has its behaviours already: give either it or behaviours.")
    made: list[Recorder] = []
    base = _base(minisgl, behaviours)

    class RecordedToy(base):  # type: ignore[valid-type,misc]
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            if sort:
                _sort_decode_batches(self)
            sanitizer = KVSanitizer(self, stop=False) if check else None
            made.append(Recorder(self, sanitizer=sanitizer))

    with patch.object(toy, "Toy", RecordedToy), patch.object(sys, "argv", [str(path)]):
        error = _run(path)
    if len(made) != 1:
        raise ValueError(f"{script} makes {len(made)} Toys; a script plays one.")
    (recorder,) = made
    faults = recorder.sanitizer.faults if recorder.sanitizer is not None else ()
    return Recorded(recorder.trace(), error, tuple(faults))


def _base(minisgl: str | Path | None, behaviours: Sequence[str]) -> type[toy.Toy]:
    if minisgl is not None:
        return reference_scheduler(load_minisgl(minisgl), base=toy.Toy)
    return published_scheduler(*behaviours, base=toy.Toy)


def _run(script: Path) -> str | None:
    """Run it to its end; returns the error that left a turn of the scheduler, if one did."""
    try:
        runpy.run_path(str(script), run_name="__main__")
    except HookError:
        raise
    except (AssertionError, RuntimeError) as error:
        if traceback.extract_tb(error.__traceback__)[-1].filename == str(script):
            raise  # the script's own
        return f"{type(error).__name__}: {error}".rstrip(": ")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise ValueError(f"{script} ended with sys.exit({end.code!r}).") from None
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


__all__ = ["SCRIPTS", "Recorded", "find_script", "record_script"]
