"""The grader's judge for one submission: verdicts are reached on this side of the walls."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..teaching.checks.exercise import EXERCISES, Exercise, Verdict, load_exercises
from ..teaching.checks.judge import judge
from ..teaching.checks.learner import Link
from ..teaching.checks.wire import MAX_LINE, parse, send

Seeds = Callable[[str], Sequence[int]]


HIDDEN = "right on the public examples, and wrong on others: try it on more shapes and sizes"
"""What is told of a difference on a stream that stays hidden."""


class Record:
    """The verdicts on one submission. The last one on an exercise counts.

    ``asked``: how often each exercise was checked. ``flags``: what a grader should look at.
    """

    def __init__(self) -> None:
        self.verdicts: dict[str, Verdict] = {}
        self.asked: dict[str, int] = {}
        self.flags: list[str] = []

    def note(self, verdict: Verdict) -> None:
        self.verdicts[verdict.name] = verdict
        self.asked[verdict.name] = self.asked.get(verdict.name, 0) + 1

    def flag(self, text: str) -> None:
        if text not in self.flags:
            self.flags.append(text)


@contextmanager
def judge_at(
    path: Path, exercises: Sequence[str], seeds: Seeds, numbers: Callable[[str], str]
) -> Iterator[Record]:
    """Answer checks at the Unix socket ``path`` meanwhile; only those of ``exercises`` count.

    What the other end says about seeds and numbers is not listened to.
    """
    load_exercises()
    record = Record()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    os.chmod(path, 0o666)  # the kernel runs under another account
    listener.listen(4)
    stopped = threading.Event()

    def accept() -> None:
        while not stopped.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            # Whatever one kernel sends, the next one is served.
            with connection, contextlib.suppress(Exception):
                _serve(connection, record, set(exercises), seeds, numbers)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield record
    finally:
        stopped.set()
        # Closing alone does not wake a thread that accepts.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(timeout=30)
        path.unlink(missing_ok=True)


def _serve(
    connection: socket.socket,
    record: Record,
    exercises: set[str],
    seeds: Seeds,
    numbers: Callable[[str], str],
) -> None:
    """One kernel's checks, until it hangs up."""
    incoming, outgoing = connection.makefile("rb"), connection.makefile("wb")
    link = Link(incoming, outgoing)
    while line := incoming.readline(MAX_LINE):
        name = str(parse(line).get("check"))
        if name not in exercises:
            record.flag(f"asked for a check of {name[:60]!r}, which is not in this notebook")
            verdict = Verdict(name[:60], "error", "this check is not part of the assignment")
        else:
            verdict = _judge(EXERCISES[name], link, list(seeds(name)), numbers(name))
            record.note(verdict)
        send(outgoing, {"verdict": verdict._asdict()})


def _judge(exercise: Exercise, link: Link, seeds: list[int], numbers: str) -> Verdict:
    """The public stream first, whose first difference may be told; of the others none is."""
    if exercise.template is not None or exercise.check is None or len(seeds) < 2:
        return judge(exercise, link, seeds, numbers=numbers)
    verdict = judge(exercise, link, seeds[:1], numbers=numbers)
    if verdict.status == "done":
        verdict = judge(exercise, link, seeds[1:], numbers=numbers)
        if verdict.status == "wrong":
            verdict = verdict._replace(text=HIDDEN)
    return verdict
