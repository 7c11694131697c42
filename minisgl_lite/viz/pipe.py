"""A driver in another process: commands go down a pipe, answers come up, a line of JSON each.

The engine runs where its code may do what it likes (print, loop, crash); the view stays here. One
command has one answer; a second command is written when the first is answered.

    driver = PipeDriver.start("my_module:make_engine")
    show(driver)
    driver.close()

``make_engine`` returns a driver, or what ``LocalDriver`` takes. ``python -m minisgl_lite.viz.pipe
my_module:make_engine`` is the other end.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import IO, Any

from ..text import say
from ..trace import Trace, TraceError
from .driver import Answer, Command, Driver, LocalDriver

TRACE = "trace"
"""The one op that is none of the view's: the answer is the whole trace."""


def serve(driver: Driver, commands: IO[str], answers: IO[str]) -> None:
    """Answer each line of ``commands`` by a line of ``answers``, until there are no more."""
    for line in commands:
        answers.write(json.dumps(_answer(driver, line), separators=(",", ":")) + "\n")
        answers.flush()


def _answer(driver: Driver, line: str) -> Any:
    try:
        command = json.loads(line)
    except ValueError:
        command = None  # which the driver says is no command
    if isinstance(command, dict) and command.get("op") == TRACE:
        return driver.trace().to_dict(wall=False)
    return driver.command(command)


class PipeDriver:
    """A ``Driver`` whose engine is at the other end of two pipes.

    Args:
        commands: text is written here, a line per command.
        answers: lines are read here.
        timeout: seconds to wait for an answer; None: as long as it takes. An engine that does not
            answer in time is given up: its process is killed, and every later answer says so.
        process: what runs the engine, ours to end.

    ``command`` never raises: what goes wrong on the way, or at the other end, is an error's answer.
    """

    def __init__(
        self,
        commands: IO[str],
        answers: IO[str],
        *,
        timeout: float | None = None,
        process: subprocess.Popen[str] | None = None,
    ) -> None:
        self._commands, self._timeout, self._process = commands, timeout, process
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._lock = threading.Lock()  # one command at a time
        self._gone: str | None = None  # why the engine answers no more
        threading.Thread(target=self._listen, args=(answers,), daemon=True).start()

    @classmethod
    def start(
        cls,
        target: str,
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> PipeDriver:
        """Run ``module:function``'s engine in a process of its own.

        ``env``, ``cwd``: of that process; by default ours. Its prints go to our standard error.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=None if env is None else dict(env),
            cwd=cwd,
        )
        assert process.stdin is not None and process.stdout is not None
        return cls(process.stdin, process.stdout, timeout=timeout, process=process)

    def command(self, command: Command) -> Answer:
        answer = self._ask(command)
        if isinstance(answer, str):
            return {"frames": [], "vocab": {}, "busy": False, "error": answer}
        return answer

    def trace(self) -> Trace:
        """All that has happened. Raises TraceError when the engine answers no more."""
        answer = self._ask({"op": TRACE})
        if isinstance(answer, str):
            raise TraceError(answer)
        return Trace.from_dict(answer, source="the engine's trace")

    def close(self) -> None:
        """End the engine's process, if it is ours."""
        self._gone = self._gone or say("driver.pipe.closed")
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> PipeDriver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the two pipes -------------------------------------------------------------------------
    def _listen(self, answers: IO[str]) -> None:
        try:
            for line in answers:
                self._lines.put(line)
        except (OSError, ValueError):
            pass  # closed under our hands: the same as its end
        self._lines.put("")

    def _ask(self, command: Command) -> dict[str, Any] | str:
        """The answer, or a line that says why there is none."""
        with self._lock:
            if self._gone is not None:
                return self._gone
            try:
                self._commands.write(json.dumps(command, separators=(",", ":")) + "\n")
                self._commands.flush()
                line = self._lines.get(timeout=self._timeout)
            except TypeError as error:  # nothing was written
                return say("driver.pipe.command", text=error)
            except (OSError, ValueError):
                line = ""
            except queue.Empty:
                return self._give_up(say("driver.pipe.late", seconds=self._timeout))
            return self._read(line)

    def _read(self, line: str) -> dict[str, Any] | str:
        if not line:
            return self._give_up(self._ended())
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            return self._give_up(say("driver.pipe.answer", line=repr(line[:60])))
        return answer

    def _ended(self) -> str:
        if self._process is None:
            return say("driver.pipe.ended")
        try:
            return say("driver.pipe.code", code=self._process.wait(timeout=5))
        except subprocess.TimeoutExpired:
            return say("driver.pipe.ended")

    def _give_up(self, why: str) -> str:
        self._gone = why
        self.close()
        return why


def make_driver(target: str) -> Driver:
    """The driver that ``module:function`` stands for. Raises ValueError."""
    module, _, name = target.partition(":")
    try:
        make: Callable[[], Any] = getattr(importlib.import_module(module), name)
    except (AttributeError, ImportError, ValueError):
        raise ValueError(f"{target!r} is not module:function of something to run") from None
    made = make()
    return made if hasattr(made, "command") else LocalDriver(made)


def main(target: str) -> None:
    """Answer on standard input and output; what the engine's code prints goes elsewhere."""
    commands = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with open(os.devnull, encoding="utf-8") as nothing:
        os.dup2(nothing.fileno(), 0)
    serve(make_driver(target), commands, answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
