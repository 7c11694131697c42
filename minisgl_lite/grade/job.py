"""One submission, graded: in a folder and a process of its own, with a database of its own.

``grade_submission`` is plain data in and out, so that any pool of workers can run it. Around it,
``python -m minisgl_lite.grade.job COURSE SUBMISSION OUT RUNTIME SECONDS`` is what the pool starts:
it may hang or die, and takes nobody with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..teaching.checks import EXERCISES, load_exercises
from ..teaching.release import public_numbers, secret_numbers
from . import sandbox
from .course import STUDENT, Course, score
from .distribution import write_distribution
from .judging import Record, judge_at

KERNEL = "minisgl-sandbox"
STATUSES = ("graded", "partial", "error", "timeout", "killed")


@dataclass
class Cell:
    """The score of one graded cell; None: nobody knows, and ``reason`` says why.

    ``manual``: a person is to mark it. ``comment``: what a person wrote on it.
    """

    exercise: str
    score: float | None
    max_score: float
    reason: str = ""
    misconception: str | None = None
    manual: bool = False
    comment: str = ""


@dataclass
class Result:
    """What a job found out. ``status``: one of ``STATUSES``. ``notebooks``: as executed."""

    status: str
    cells: dict[str, Cell] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    reason: str = ""
    notebooks: dict[str, str] = field(default_factory=dict)

    @property
    def score(self) -> float | None:
        """The sum of what is known. None where that is nothing, or where it would be a 0 that only
        stands for what isn't known."""
        known = [cell.score for cell in self.cells.values() if cell.score is not None]
        return sum(known) if known and (any(known) or not self.unknown) else None

    @property
    def unknown(self) -> list[Cell]:
        """The cells that a check should have scored and didn't."""
        return [cell for cell in self.cells.values() if cell.score is None and not cell.manual]

    @property
    def max_score(self) -> float:
        return sum(cell.max_score for cell in self.cells.values())

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Result:
        data = json.loads(text)
        data["cells"] = {grade_id: Cell(**cell) for grade_id, cell in data["cells"].items()}
        return cls(**data)


def hidden_seeds(secret: bytes | None) -> Callable[[str], Sequence[int]]:
    """The streams a check runs: the public one, and one that only a course's secret tells."""

    def seeds(exercise: str) -> Sequence[int]:
        if secret is None:
            return (0, 1)
        digest = hmac.new(secret, f"stream {exercise}".encode(), hashlib.sha256).digest()
        return (0, int.from_bytes(digest[:4], "big"))

    return seeds


def grade_submission(
    course: Course,
    notebooks: dict[str, bytes],
    *,
    secret: bytes | None = None,
    student: str = "",
    walls: bool = True,
    cell_seconds: int = 60,
    seconds: float = float("inf"),
    runtime: Path | None = None,
) -> Result:
    """Grade one student's ``notebooks`` (file name to bytes) against ``course``.

    ``student`` chooses their numbers where the course drew some for each. ``walls`` False runs the
    kernel without a sandbox, on a machine that is then the student's. After ``seconds`` no cell is
    begun. ``runtime``: an empty folder named ``kernel-…`` for sockets.
    """
    load_exercises()
    if walls and (lacking := sandbox.missing()):
        raise ValueError(
            f"no sandbox here: {', '.join(lacking)} missing. Install bubblewrap and util-linux"
            " (Debian: apt-get install bubblewrap), or grade with --no-sandbox."
        )
    numbers = public_numbers if secret is None else secret_numbers(secret, student)
    with tempfile.TemporaryDirectory(prefix="grade-") as name:
        folder = Path(name)
        private = course.copy_to(folder / "course")
        for file_name, content in notebooks.items():
            target = private.submitted(STUDENT) / file_name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        if runtime is None:
            runtime = folder / "kernel-1"
            runtime.mkdir(mode=0o700)
        exercises = private.exercises()
        learner = folder / "learner"
        write_distribution(learner, (c for e in exercises for c in EXERCISES[e].counterparts))
        _kernelspec(folder / "jupyter", walls)
        judge = runtime / "judge.sock"
        with (
            judge_at(judge, exercises, hidden_seeds(secret), numbers) as record,
            _environment(folder, judge, learner),
        ):
            connection_file = runtime / "kernel.json"
            try:
                private.autograde(record, KERNEL, connection_file, cell_seconds, seconds)
            except ValueError as error:
                return _without_gradebook(private, record, str(error))
        return _result(private, record)


def _kernelspec(jupyter: Path, walls: bool) -> None:
    """A kernelspec whose program is the sandbox; without walls, ipykernel itself."""
    spec = jupyter / "kernels" / KERNEL
    spec.mkdir(parents=True)
    module = "minisgl_lite.grade.sandbox" if walls else "ipykernel_launcher"
    argv = [sys.executable, "-m", module]
    argv += ["{connection_file}"] if walls else ["-f", "{connection_file}"]
    content = {"argv": argv, "display_name": "Sandbox", "language": "python"}
    # A time-out must interrupt the cell, not the sandbox around the kernel.
    content |= {"interrupt_mode": "message"}
    (spec / "kernel.json").write_text(json.dumps(content))


class _environment:
    """The variables that a kernel of this submission is started with."""

    def __init__(self, folder: Path, judge: Path, learner: Path) -> None:
        self.variables = {
            "JUPYTER_PATH": str(folder / "jupyter"),
            "MINISGL_LITE_JUDGE": str(judge),
            sandbox.LEARNER: str(learner),
        }

    def __enter__(self) -> None:
        self.before = {name: os.environ.get(name) for name in self.variables}
        os.environ |= self.variables

    def __exit__(self, *exc: object) -> None:
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _result(course: Course, record: Record) -> Result:
    cells: dict[str, Cell] = {}
    for grade_id, graded in course.grades(STUDENT).items():
        exercise = grade_id.rpartition("-")[0]
        verdict = record.verdicts.get(exercise)
        misconception = verdict.misconception if verdict is not None else None
        cells[grade_id] = Cell(
            exercise, graded.score, graded.max_score, graded.reason, misconception, graded.manual
        )
    result = Result("graded", cells, [*record.flags, *course.flags])
    result.notebooks = course.executed(STUDENT)
    unknown = result.unknown
    if course.late:
        result.status = "timeout"
    elif unknown:
        result.status = _how_much(cells)
    reasons = [*course.broke_off.values(), *(cell.reason for cell in unknown)]
    result.reason = reasons[0] if reasons else ""
    return result


def _without_gradebook(course: Course, record: Record, reason: str) -> Result:
    """What the judge has found before nbgrader failed."""
    cells: dict[str, Cell] = {}
    for grade_id, (points, by_hand) in course.worth().items():
        exercise = grade_id.rpartition("-")[0]
        verdict = None if by_hand else record.verdicts.get(exercise)
        earned, why = score(points, verdict, reason)
        misconception = verdict.misconception if verdict is not None else None
        cells[grade_id] = Cell(exercise, earned, points, why, misconception, by_hand)
    return Result(_how_much(cells), cells, [*record.flags, *course.flags], reason)


def _how_much(cells: dict[str, Cell]) -> str:
    """Partial when some cell has a score."""
    return "partial" if any(cell.score is not None for cell in cells.values()) else "error"


def main(argv: Sequence[str]) -> int:
    """COURSE: a folder; SUBMISSION: JSON of file names to base64; OUT: where the result goes;
    RUNTIME: a folder for sockets; SECONDS: how long it may take."""
    import base64

    with contextlib.suppress(OSError):  # where memory runs out, this goes before the grader
        Path("/proc/self/oom_score_adj").write_text("500")
    course, submission, out, runtime = (Path(arg) for arg in argv[:4])
    request: dict[str, Any] = json.loads(submission.read_text(encoding="utf-8"))
    notebooks = {name: base64.b64decode(text) for name, text in request["notebooks"].items()}
    secret = bytes.fromhex(request["secret"]) if request.get("secret") else None
    result = grade_submission(
        Course(course),
        notebooks,
        secret=secret,
        student=request.get("student", ""),
        walls=request.get("walls", True),
        cell_seconds=request.get("cell_seconds", 60),
        seconds=float(argv[4]),
        runtime=runtime,
    )
    scratch = out.with_suffix(".part")
    scratch.write_text(result.to_json(), encoding="utf-8")
    shutil.move(scratch, out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
