"""``check``, ``check_all``, ``hint`` and ``show_run``: all that a notebook of exercises calls."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import IO, Any

from .exercise import EXERCISES, PUBLIC, Exercise, Verdict, load_exercises
from .serve import serve
from .wire import WireError, send

JUDGE = "MINISGL_LITE_JUDGE"
"""Environment variable: the Unix socket of a grader's judge. Without it a judge is started here."""


class NotPassed(Exception):
    """Raised by ``check`` where nbgrader runs the notebook: a cell that only prints would pass."""

    def _render_traceback_(self) -> list[str]:
        return [f"NotPassed: {self}"]


class Judge:
    """The judge's process, or a grader's, from a notebook's end; started when first asked."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._streams: tuple[IO[bytes], IO[bytes]] | None = None

    def ask(
        self, name: str, namespace: Mapping[str, Any], seeds: list[int], numbers: str
    ) -> Verdict:
        """The verdict on what ``namespace`` defines for the exercise ``name``."""
        request = {"check": name, "seeds": seeds, "numbers": numbers}
        return self._ask(name, namespace, request)[0]

    def scene(self, name: str, namespace: Mapping[str, Any]) -> tuple[Verdict, Any]:
        """What became of a run with that in the engine, and its trace, if there was a run."""
        return self._ask(name, namespace, {"scene": name})

    def _ask(
        self, name: str, namespace: Mapping[str, Any], request: dict[str, Any]
    ) -> tuple[Verdict, Any]:
        incoming, outgoing = self._open()
        try:
            send(outgoing, request)
            answer = serve(namespace, incoming, outgoing)
            return Verdict(**answer["verdict"]), answer.get("trace")
        except (OSError, WireError, TypeError):
            self.close()
            text = "the check has stopped; run this cell once more"
            return Verdict(name, "error", text), None
        except BaseException:
            self.close()  # the judge still waits for an answer that won't come
            raise

    def _open(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._streams is not None and (self._process is None or self._process.poll() is None):
            return self._streams
        if path := os.environ.get(JUDGE):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(path)
            self._streams = (connection.makefile("rb"), connection.makefile("wb"))
            return self._streams
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.judge"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"OMP_NUM_THREADS": "1"} | os.environ,
            start_new_session=True,  # Ctrl-C is the notebook's
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._streams = (self._process.stdout, self._process.stdin)
        return self._streams

    def close(self) -> None:
        """End the judge; the next check starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for stream in self._streams or ():
            with contextlib.suppress(OSError):  # its other end is gone
                stream.close()
        self._process = self._streams = None


_judge = Judge()
atexit.register(_judge.close)
_hints_shown: dict[str, int] = {}
_numbers: dict[str, str] = {}


def check(name: str, numbers: str = PUBLIC) -> None:
    """Check the answer that this notebook has for the exercise ``name``, and print one line.

    ``done: NAME``, ``wrong: NAME: …`` with the first difference, or ``not done yet: NAME``.
    ``numbers``: a token that stands for the numbers of this notebook's question.

    Raises:
        ValueError: there is no such exercise.
        NotPassed: only where nbgrader runs the notebook, for everything but ``done``.
    """
    verdict = verdict_on(name, _caller(2), numbers)
    _numbers[name] = numbers
    if "NBGRADER_EXECUTION" in os.environ and verdict.status != "done":
        raise NotPassed(verdict.line())
    print(verdict.line())


def verdict_on(name: str, namespace: Mapping[str, Any], numbers: str = PUBLIC) -> Verdict:
    """As ``check``, for what ``namespace`` defines; nothing is printed."""
    if JUDGE not in os.environ:  # a grader's sandbox holds no exercises; its judge knows them
        find(name)
    return _judge.ask(name, namespace, [0, secrets.randbelow(2**31)], numbers)


def check_all() -> None:
    """A line for each exercise of this notebook, and how many are done.

    They are those that the notebook has checked, in that order, and those whose answer it defines.
    """
    namespace = _caller(2)
    exercises = load_exercises()
    known = exercises.supported_names()  # none in a grader's sandbox: all was checked above
    checked = [name for name in _numbers if name in known]
    defined = [name for name in known if exercises[name].answer in namespace]
    verdicts = [
        verdict_on(name, namespace, _numbers.get(name, PUBLIC))
        for name in dict.fromkeys([*checked, *defined])
    ]
    for verdict in verdicts:
        print(verdict.line())
    done = sum(verdict.status == "done" for verdict in verdicts)
    print(f"{done} of {len(verdicts)} done")


def hint(name: str) -> None:
    """Print the next of the exercise's three hints; each tells more than the one before."""
    exercise = find(name)
    number = _hints_shown[name] = min(_hints_shown.get(name, 0) + 1, len(exercise.hints))
    print(f"Hint {number} of {len(exercise.hints)}: {exercise.hints[number - 1]}")


def show_run(name: str, numbers: str = PUBLIC, **options: Any) -> Any:
    """The view of the run that the exercise ``name`` asks about; ``options`` as ``viz.show`` has.

    Where the exercise asks for code, it is a run with this notebook's code in the engine. One that
    went wrong opens where the sanitizer found the fault, or at its end, below a line that says what
    happened; of a stub there is nothing to show. Where a grader runs the notebook nothing is shown:
    None.

    Raises:
        ValueError: there is no such exercise, or it has no run.
    """
    if JUDGE in os.environ:
        return None
    from ...trace import Trace
    from ...viz import show

    exercise = find(name)
    if exercise.template is not None and exercise.template.run is not None:
        run, task = exercise.template.run, exercise.template.task(numbers)
        return show(run(task), **options)
    if exercise.scene is None:
        raise ValueError(f"the exercise {name!r} has no run to show.")
    verdict, trace = _judge.scene(name, _caller(2))
    if verdict.status != "done":
        print(verdict.line())
    if trace is None:
        return None
    if verdict.status != "done":
        faulty = any("fault" in frame for frame in trace["frames"])
        options["start"] = "fault" if faulty else "end"
    return show(Trace.from_dict(trace), **options)


def find(name: str) -> Exercise:
    """Raises ValueError, with the names there are, for an unknown one."""
    load_exercises()
    return EXERCISES[name]


def _caller(depth: int) -> Mapping[str, Any]:
    """The notebook's names: IPython's own, or the calling module's."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        namespace: Mapping[str, Any] = shell.user_ns
        return namespace
    return sys._getframe(depth).f_globals
