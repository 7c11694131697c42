"""The grader's judge: a hidden stream stays hidden, and whatever a kernel sends it has an end."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from minisgl_lite.grade import judging
from minisgl_lite.grade.gradebook import feedback_html, gradebook_csv, summary_html
from minisgl_lite.grade.job import Cell, Result, hidden_seeds
from minisgl_lite.grade.judging import FLAGS, OFTEN, TEXT, Record, judge_at
from minisgl_lite.grade.run import Row
from minisgl_lite.teaching.checks.learner import shown
from minisgl_lite.teaching.checks.serve import serve
from minisgl_lite.teaching.checks.wire import send
from minisgl_lite.teaching.release import public_numbers

SECRET = bytes(range(32))
SEEDS = hidden_seeds(SECRET)


def right(starts: Any, page_size: int, count: int) -> torch.Tensor:
    slots = [starts[t // page_size] + t % page_size for t in range(count)]
    return torch.tensor(slots, dtype=torch.int32)


class Grader:
    """A judge at a socket, and a notebook's end of it."""

    def __init__(self, path: Path, record: Record) -> None:
        self.path, self.record = path, record

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.path))
        connection.settimeout(120)
        return connection

    def check(self, answer: Callable[..., Any]) -> str:
        """Check `answer` as page-slots; the verdict's sentence as the grader keeps it."""
        with self.connect() as connection:
            incoming, outgoing = connection.makefile("rb"), connection.makefile("wb")
            send(outgoing, {"check": "page-slots"})
            serve({"page_slots": answer}, incoming, outgoing)
        return self.record.verdicts["page-slots"].text


@contextmanager
def grader(folder: Path, seeds: Callable[[str], Sequence[int]] = SEEDS) -> Iterator[Grader]:
    with judge_at(folder / "judge.sock", ["page-slots"], seeds, public_numbers) as record:
        yield Grader(folder / "judge.sock", record)


def asked(folder: Path, seeds: Sequence[int]) -> list[str]:
    """What a right answer is called with, as a message would show it."""
    calls: list[str] = []

    def answer(*args: Any) -> torch.Tensor:
        calls.append(shown(args))
        return right(*args)

    with grader(folder, lambda _: seeds) as it:
        it.check(answer)
        assert it.record.verdicts["page-slots"].status == "done"
    return calls


@pytest.fixture
def hidden(tmp_path: Path) -> set[str]:
    """Calls that only the secret's stream makes."""
    public, secret = SEEDS("page-slots")
    found = set(asked(tmp_path, [secret])) - set(asked(tmp_path, [public]))
    found = {call for call in found if len(call) > 15}
    assert len(found) > 10
    return found


class Leaks:
    """Right until the secret's stream begins; then it tells what it is asked."""

    def __init__(self, hidden: set[str], tell: Callable[[str], Any]) -> None:
        self.hidden, self.tell, self.seen = hidden, tell, ""

    def __call__(self, *args: Any) -> Any:
        if shown(args) in self.hidden:
            self.seen = shown(args)
        return self.tell(self.seen) if self.seen else right(*args)


def raises(text: str) -> Any:
    raise ValueError(text)


TELLS: dict[str, Callable[[str], Any]] = {
    "in-an-error": raises,
    "as-its-value": lambda text: text,
    "as-a-value-that-cannot-travel": lambda text: type(text, (), {})(),
    "in-wrong-slots": lambda text: torch.tensor([ord(c) for c in text], dtype=torch.int32),
}


def reports(record: Record) -> str:
    """All that a student, or a learning platform, is given."""
    verdict = record.verdicts["page-slots"]
    cell = Cell("page-slots", 0.0, 4.0, verdict.text, verdict.misconception)
    row = Row("ada", Result("graded", {"page-slots-check": cell}, record.flags, verdict.text))
    return feedback_html(row) + summary_html([row]) + gradebook_csv([row])


@pytest.mark.parametrize("how", TELLS)
def test_nothing_of_a_hidden_stream_is_told(tmp_path: Path, hidden: set[str], how: str) -> None:
    leaks = Leaks(hidden, TELLS[how])
    with grader(tmp_path) as it:
        assert "right on the public examples" in it.check(leaks)
        assert leaks.seen
        # What it has seen, it now tells where the first difference is told.
        it.check(leaks)
        assert not [call for call in hidden if call in reports(it.record)]
        assert SECRET.hex() not in reports(it.record)


@pytest.mark.parametrize("how", ["in-an-error", "as-its-value"])
def test_a_judge_that_told_would_be_seen(
    tmp_path: Path, hidden: set[str], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "HIDDEN", {})
    with grader(tmp_path) as it:
        it.check(Leaks(hidden, TELLS[how]))
        assert [call for call in hidden if call in reports(it.record)]


def test_what_a_kernel_makes_up_is_cut(tmp_path: Path) -> None:
    """A line of its own in place of an answer, with a sentence without end."""
    with grader(tmp_path) as it, it.connect() as connection:
        stream = connection.makefile("rwb")
        send(stream, {"check": "page-slots"})
        assert json.loads(stream.readline())["op"] == "begin"
        stream.readline()
        send(stream, {"error": "signature", "text": "=1\n" + "x" * 10_000_000})
        json.loads(stream.readline())
        text = it.record.verdicts["page-slots"].text
    assert len(text) < TEXT + 10 and "\n" not in text


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"value": {"tensor": {"dtype": "torch.int32", "shape": [1e99], "bytes": ""}}}',
        b'{"value": {"tensor": {"dtype": "torch.int32", "shape": [-1], "bytes": "AAAA"}}}',
        b'{"value": {"dict": [[{"dict": []}, 1]]}, "args": []}',
        b'{"value": {"pickle": "gASVIAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOU"}, "args": []}',
        b'{"value": ' + b"9" * 5000 + b"}",
        b'{"value": NaN, "args": [NaN, 1, 1]}',
        b'{"verdict": {"name": "page-slots", "status": "done"}}',
        b'{"error": ["signature"], "text": {"a": 1}}',
        b"\xff\xfe",
        b"",
    ],
)
def test_an_answer_that_is_none_earns_nothing_and_the_next_one_is_judged(
    tmp_path: Path, line: bytes
) -> None:
    with grader(tmp_path) as it:
        with it.connect() as connection:
            stream = connection.makefile("rwb")
            send(stream, {"check": "page-slots"})
            stream.readline()
            stream.readline()
            stream.write(line + b"\n")
            stream.flush()
            connection.shutdown(socket.SHUT_WR)
            while stream.readline():
                pass
        assert it.record.verdicts["page-slots"].status in ("wrong", "error")
        it.check(right)
        assert it.record.verdicts["page-slots"].status == "done"


def test_asking_has_an_end(tmp_path: Path) -> None:
    with grader(tmp_path) as it:
        for _ in range(OFTEN + 3):
            it.check(None)  # type: ignore[arg-type]
        assert it.record.asked["page-slots"] == OFTEN
        assert it.record.flags == [f"asked for the check of page-slots more than {OFTEN} times"]
        it.check(right)
        assert it.record.verdicts["page-slots"].status == "wrong", "too late"


def test_flags_have_an_end(tmp_path: Path) -> None:
    with grader(tmp_path) as it, it.connect() as connection:
        stream = connection.makefile("rwb")
        for number in range(200):
            send(stream, {"check": f"another-{number}"})
            assert json.loads(stream.readline())["verdict"]["status"] == "error"
        assert len(it.record.flags) == FLAGS
        assert it.record.verdicts == {}


def test_a_connection_that_says_nothing_keeps_nobody_at_the_end(tmp_path: Path) -> None:
    with grader(tmp_path) as it:
        idle = it.connect()
        threading.Timer(0.5, idle.close).start()
        it.check(right)
        assert it.record.verdicts["page-slots"].status == "done"


def test_the_graders_own_folders_are_left_out(tmp_path: Path) -> None:
    package = Path(judging.__file__).parents[2]

    def imports_in_vain(*args: Any) -> None:
        raise ImportError(f"no 'x' in {package}/minisgl_lite/a.py, {sys.prefix}:/usr/lib/b.py")

    with grader(tmp_path) as it:
        said = it.check(imports_in_vain)
    assert "raised ImportError: no 'x' in …/minisgl_lite/a.py, …:/usr/lib/b.py (line " in said
