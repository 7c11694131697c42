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
from .places import without_places

Seeds = Callable[[str], Sequence[int]]


HIDDEN = {
    "wrong": "right on the public examples, and wrong on others: try it on more shapes and sizes",
    "error": "right on the public examples, and its check of others did not come to an end",
}
"""What is told of a stream that stays hidden, by the verdict's status."""
UNTOLD = "wrong in a cell that was checked before; look at it in your own notebook"
"""What is told when code that has seen a hidden stream is checked again: its words may be that."""
OFTEN = 30
"""An exercise is checked as often, and not more; an honest notebook asks twice."""
TEXT = 600
"""Characters of a verdict's sentence."""
FLAGS = 20


class Record:
    """The verdicts on one submission. The last one on an exercise counts.

    ``asked``: how often each exercise was checked. ``shown``: those whose hidden stream the code
    has seen. ``flags``: what a grader should look at.
    """

    def __init__(self) -> None:
        self.verdicts: dict[str, Verdict] = {}
        self.asked: dict[str, int] = {}
        self.shown: set[str] = set()
        self.flags: list[str] = []

    def note(self, verdict: Verdict) -> None:
        # It may quote the other end, which may send what it likes.
        text = without_places(" ".join(verdict.text[:4000].split()))
        text = text if len(text) <= TEXT else text[:TEXT] + " …"
        self.verdicts[verdict.name] = verdict._replace(text=text)

    def flag(self, text: str) -> None:
        if text not in self.flags and len(self.flags) < FLAGS:
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
    open_now: list[socket.socket] = []

    def accept() -> None:
        while not stopped.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            open_now[:] = [connection]
            # Whatever one kernel sends, the next one is served.
            with connection, contextlib.suppress(Exception):
                _serve(connection, record, set(exercises), seeds, numbers)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield record
    finally:
        stopped.set()
        # Closing alone does not wake a thread that accepts, or reads.
        for end in (listener, *open_now):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
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
        elif record.asked.get(name, 0) >= OFTEN:
            record.flag(f"asked for the check of {name} more than {OFTEN} times")
            verdict = Verdict(name, "error", "this was checked too often")
        else:
            record.asked[name] = record.asked.get(name, 0) + 1
            try:
                verdict = _judge(EXERCISES[name], link, list(seeds(name)), numbers(name), record)
            except Exception as error:
                # A value that no answer would have; whatever it is, the score isn't known.
                text = f"the check itself failed: {type(error).__name__}"
                record.note(Verdict(name, "error", text))
                raise
            record.note(verdict)
        send(outgoing, {"verdict": verdict._asdict()})


def _judge(
    exercise: Exercise, link: Link, seeds: list[int], numbers: str, record: Record
) -> Verdict:
    """The public stream first, whose first difference may be told; of the others none is.

    Code that was asked about a hidden stream can say so in an error of its own, so that after the
    first time its words are not told either.
    """
    if exercise.template is not None or exercise.check is None or len(seeds) < 2:
        return judge(exercise, link, seeds, numbers=numbers)
    verdict = judge(exercise, link, seeds[:1], numbers=numbers)
    if verdict.status in HIDDEN and exercise.name in record.shown:
        return verdict._replace(text=UNTOLD)
    if verdict.status == "done":
        record.shown.add(exercise.name)
        verdict = judge(exercise, link, seeds[1:], numbers=numbers)
        if verdict.status in HIDDEN:
            verdict = verdict._replace(text=HIDDEN[verdict.status])
    return verdict
