"""The command's options and exit codes, with jobs that give their results at once."""

from __future__ import annotations

import base64
import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from minisgl_lite.cli import main
from minisgl_lite.cli.grade import WARNING
from minisgl_lite.grade import run, sandbox
from minisgl_lite.grade.course import Course
from minisgl_lite.grade.job import Cell, Result

from .submissions import NAME, ROOT, answered, handed_out

FILE = f"{NAME}.ipynb"
STUB, RIGHT = json.dumps(handed_out()).encode(), answered()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Course:
    root = tmp_path_factory.mktemp("command") / "course"
    return Course.create(root, [ROOT / "solutions" / FILE])


@pytest.fixture
def jobs(made: Course, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What jobs are asked; each gives page-slots its points if something was written there."""
    asked: list[dict[str, Any]] = []
    worth = made.worth()

    def job(course: bytes, request: bytes, seconds: float) -> str:
        asked.append(json.loads(request))
        notebook = json.loads(base64.b64decode(asked[-1]["notebooks"][FILE]))
        (answer,) = [c for c in notebook["cells"] if c["id"] == "page-slots-answer"]
        done = "raise NotImplementedError" not in "".join(answer["source"])
        cells = {}
        for grade_id, (points, by_hand) in worth.items():
            exercise = grade_id.rpartition("-")[0]
            score = points if done and exercise == "page-slots" else 0.0
            cells[grade_id] = Cell(exercise, None if by_hand else score, points, manual=by_hand)
        return Result("graded", cells, notebooks={FILE: json.dumps(notebook)}).to_json()

    def create(root: Path, sources: Sequence[Path], numbers: Any = None) -> Course:
        shutil.copytree(made.root, root)
        return Course(root)

    monkeypatch.setattr(run, "run_job", job)
    monkeypatch.setattr(Course, "create", create)
    monkeypatch.chdir(ROOT)
    if sandbox.missing():
        monkeypatch.setattr(sandbox, "missing", list)
    return asked


def hand_in(folder: Path, **students: bytes) -> list[str]:
    """The command's arguments for these submissions."""
    for name, content in students.items():
        (folder / "in" / name).mkdir(parents=True, exist_ok=True)
        (folder / "in" / name / FILE).write_bytes(content)
    return [str(folder / "in"), "--assignment", NAME, "--out", str(folder / "out")]


def rows(path: Path) -> dict[str, dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


Jobs = list[dict[str, Any]]


def test_all_graded_is_0_and_one_that_needs_attention_1(
    tmp_path: Path, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    command = hand_in(tmp_path, ada=RIGHT, bob=STUB)
    assert main(["grade", *command]) == 0
    out = tmp_path / "out"
    assert {name: row["score"] for name, row in rows(out / "gradebook.csv").items()} == {
        "ada": "4", "bob": "0",
    }  # fmt: skip
    hand_in(tmp_path, eve=b"")
    assert main(["grade", *command, "--resume"]) == 1
    assert len(jobs) == 2, "what was done is kept"
    eve = rows(out / "gradebook.csv")["eve"]
    assert (eve["status"], eve["score"]) == ("error", "") and "it is empty" in eve["reason"]
    assert len(list((out / "feedback").iterdir())) == 3
    names = ("gradebook.db", "summary.html", "results", "autograded", "grade.log")
    assert all((out / name).exists() for name in names)
    assert (out / "grade.log").read_text(encoding="utf-8").count("graded 'ada'") == 1
    assert "grading: 100%" in capsys.readouterr().err, "the bar, with the time left"


def test_a_dry_run_grades_five_and_estimates_the_rest(
    tmp_path: Path, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    command = hand_in(tmp_path, **{f"s{number}": RIGHT for number in range(7)})
    assert main(["grade", *command, "--dry-run"]) == 0
    assert len(jobs) == 5
    assert "7 submissions: about " in capsys.readouterr().out
    out = tmp_path / "out"
    assert list(rows(out / "dry-run" / "gradebook.csv")) == [f"s{number}" for number in range(5)]
    assert not (out / "gradebook.csv").exists() and not (out / "gradebook.db").exists()
    assert main(["grade", *command, "--resume"]) == 0
    assert len(jobs) == 7 and len(rows(out / "gradebook.csv")) == 7


def test_the_roster_gives_those_who_handed_in_nothing_their_row(tmp_path: Path, jobs: Jobs) -> None:
    command = hand_in(tmp_path, ada=RIGHT)
    (tmp_path / "roster.txt").write_text("zoe\nada\nJosé Núñez\n", encoding="utf-8")
    assert main(["grade", *command, "--roster", str(tmp_path / "roster.txt")]) == 1
    found = rows(tmp_path / "out" / "gradebook.csv")
    assert list(found) == ["José Núñez", "ada", "zoe"]
    absent = found["zoe"]
    assert (absent["status"], absent["score"]) == ("error", "")
    assert absent["reason"] == "nothing was handed in"


def test_regrade_says_whose_mark_changed_from_what_to_what_and_why(
    tmp_path: Path, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    command = hand_in(tmp_path, ada=STUB, bob=RIGHT)
    assert main(["regrade", *command]) == 0
    assert "Nothing was graded in" in capsys.readouterr().out
    hand_in(tmp_path, ada=RIGHT)
    assert main(["regrade", *command]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line == "ada: 0 -> 4 (page-slots 0 -> 4): the submission changed"
    assert main(["regrade", *command]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "No mark changed."
    assert len(jobs) == 6, "all are graded anew"


def test_without_a_sandbox_a_warning_stands_on_every_report(
    tmp_path: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "missing", lambda: ["bwrap"])
    command = hand_in(tmp_path, ada=RIGHT, bob=STUB)
    assert main(["grade", *command]) == 2 and jobs == []
    assert main(["grade", *command, "--no-sandbox"]) == 0
    assert [job["walls"] for job in jobs] == [False, False]
    reports = [*(tmp_path / "out" / "feedback").iterdir(), tmp_path / "out" / "summary.html"]
    assert len(reports) == 3
    assert all(WARNING in path.read_text(encoding="utf-8") for path in reports)


@pytest.mark.parametrize(
    "wrong",
    [
        ["--workers", "0"],
        ["--timeout", "0"],
        ["--timeout", "inf"],
        ["--secret", "none"],
        ["--roster", "none"],
        ["--due", "soon"],
        ["--older", "none"],
        ["--assignment", "none"],
        ["--solutions", "none"],
        ["--per-student"],
    ],
    ids=lambda options: " ".join(options),
)
def test_a_wrong_command_is_2_says_so_in_a_line_and_grades_nobody(
    tmp_path: Path, jobs: Jobs, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grade", *hand_in(tmp_path, ada=RIGHT), *wrong]) == 2
    assert jobs == []
    assert capsys.readouterr().err.count("\n") == 1
