"""A class is graded: every student has a row, honest work its points, tricks none.

The gate grades a small class with one, two and four workers; ``-m grading`` grades all.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.utils import determine_grade

from minisgl_lite.cli import main
from minisgl_lite.grade import sandbox

from .submissions import NAME, Case, few, handed_out, many, points, short_course, six, small, write

NO_SANDBOX = f"no sandbox here: {', '.join(sandbox.missing())} missing"
pytestmark = pytest.mark.skipif(bool(sandbox.missing()), reason=NO_SANDBOX)


def grade(folder: Path, cases: dict[str, Case], *options: str) -> tuple[int, list[dict[str, str]]]:
    if not (folder / "in").exists():
        write(folder / "in", cases)
    out = folder / "out"
    arguments = [str(folder / "in"), "--assignment", "pages-and-slots", "--out", str(out)]
    status = main(["grade", *arguments, *options])
    with (out / "gradebook.csv").open(encoding="utf-8", newline="") as file:
        return status, list(csv.DictReader(file))


def assert_rows(rows: list[dict[str, str]], cases: dict[str, Case]) -> None:
    assert [row["student"].removeprefix("'") for row in rows] == sorted(cases)
    for row in rows:
        case = cases[row["student"].removeprefix("'")]
        score = "" if case.score is None else f"{case.score:g}"
        assert (row["status"], row["score"]) == (case.status, score), row
        assert case.words in row["flags"] + row["reason"], row


def stock_nbgrader(out: Path, student: str) -> float:
    """What nbgrader itself reads off the executed notebook for page-slots: it ran, so it is right.

    The row of ``prints`` says 0.
    """
    path = out / "autograded" / student / NAME / f"{NAME}.ipynb"
    cells = {cell.id: cell for cell in nbformat.read(path, as_version=4).cells}
    score, _ = determine_grade(cells["page-slots-check"])
    return float(score)


def test_a_small_class_gets_its_rows_the_same_with_any_number_of_workers(tmp_path: Path) -> None:
    cases = small(short_course(tmp_path))
    options = ["--solutions", str(tmp_path / "solutions")]
    status, rows = grade(tmp_path, cases, "--workers", "2", *options)
    assert status == 1  # two of them need attention
    assert_rows(rows, cases)
    out = tmp_path / "out"
    book = (out / "gradebook.csv").read_bytes()
    pages = {p.name: p.read_bytes() for p in (out / "feedback").iterdir()}
    assert len(pages) == len(cases)
    text = "".join(page.decode() for page in pages.values())
    assert "free-pages" in text and "Traceback" not in text
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as gradebook:
        scores = {s.student.id: s.score for s in gradebook.assignment_submissions(NAME)}
    assert scores['José "=1", Núñez'] == points()
    assert stock_nbgrader(out, "prints") == points() != 0
    before = {p: p.stat().st_mtime_ns for p in (out / "results").iterdir()}
    grade(tmp_path, cases, "--workers", "1", "--resume", *options)
    assert (out / "gradebook.csv").read_bytes() == book
    after = {p: p.stat().st_mtime_ns for p in (out / "results").iterdir()}
    unchanged = [path for path in before if before[path] == after[path]]
    assert len(unchanged) == sum(case.status == "graded" for case in cases.values())
    for workers in ("1", "4"):
        again = tmp_path / f"by-{workers}"
        command = [str(tmp_path / "in"), "--assignment", NAME, "--out", str(again), *options]
        main(["grade", *command, "--workers", workers])
        assert_same(again, out)


REPORTS = ("gradebook.csv", "summary.html", "feedback")


def assert_same(one: Path, other: Path) -> None:
    """Byte for byte, whatever was done in which order."""
    for name in REPORTS:
        paths = sorted((one / name).iterdir()) if (one / name).is_dir() else [one / name]
        assert len(paths) == (len(list((other / name).iterdir())) if len(paths) > 1 else 1)
        for path in paths:
            assert path.read_bytes() == (other / path.relative_to(one)).read_bytes(), path


@pytest.mark.grading
def test_every_submission_gets_its_row(tmp_path: Path) -> None:
    cases = many()
    _, rows = grade(tmp_path, cases, "--workers", "2", "--timeout", "180")
    assert_rows(rows, cases)


@pytest.mark.grading
def test_a_notebook_that_is_missing_is_not_known_and_no_zero(tmp_path: Path) -> None:
    write(tmp_path / "in", {"one-of-them": few()["right"]})
    out = tmp_path / "out"
    assert main(["grade", str(tmp_path / "in"), "--assignment", "storage", "--out", str(out)]) == 1
    with (out / "gradebook.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["status"], row["score"]) == ("partial", "4")
    assert "is missing" in row["flags"] and "its notebook is missing" in row["reason"]
    assert float(row["max"]) > 26  # what pages-and-slots alone is worth


@pytest.mark.grading
def test_regrade_says_whose_mark_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = few()
    stub = json.dumps(handed_out()).encode()
    cases["stub"] = Case({f"{NAME}.ipynb": stub}, "graded", 0)
    write(tmp_path / "in", {"ada": cases["stub"], "bob": cases["right"]})
    command = [str(tmp_path / "in"), "--assignment", "pages-and-slots"]
    command += ["--out", str(tmp_path / "out")]
    assert main(["grade", *command]) == 0
    notebook = tmp_path / "in" / "ada" / "pages-and-slots.ipynb"
    notebook.write_bytes(cases["right"].files["pages-and-slots.ipynb"])
    capsys.readouterr()
    assert main(["regrade", *command]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "ada: 0 -> 4 (page-slots 0 -> 4): the submission changed"


@pytest.mark.grading
def test_validate_proves_solutions_and_stubs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", "--validate", "pages-and-slots"]) == 0
    solutions, stubs = capsys.readouterr().out.splitlines()
    assert solutions.split()[1] == solutions.split()[3] != "0"
    assert stubs.startswith("stubs: 0 of ")


@pytest.mark.grading
def test_any_number_of_workers_gives_the_same_gradebook(tmp_path: Path) -> None:
    """Five runs each with 1, 2 and 4 workers, of a class of six."""
    cases = six()
    _, rows = grade(tmp_path, cases, "--workers", "2")
    assert_rows(rows, cases)
    for number, workers in enumerate(["1", "4", *["1", "2", "4"] * 4]):
        again = tmp_path / f"run-{number}"
        command = [str(tmp_path / "in"), "--assignment", NAME, "--out", str(again)]
        main(["grade", *command, "--workers", workers])
        assert_same(again, tmp_path / "out")


@pytest.mark.parametrize(
    "arguments",
    [
        ["grade"],
        ["grade", "in", "--out", "o"],
        ["grade", "in", "--out", "o", "--assignment", NAME, "--per-student"],
        ["regrade"],
        ["grade", "--validate", "none"],
    ],
)
def test_a_command_that_lacks_something_is_wrong(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in" / "ada").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_without_a_sandbox_the_command_stops_and_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandbox, "missing", lambda: ["bwrap"])
    write(tmp_path / "in", {"right": few()["right"]})
    options = ["--assignment", "pages-and-slots", "--out", str(tmp_path / "out")]
    assert main(["grade", str(tmp_path / "in"), *options]) == 2
    error = capsys.readouterr().err
    assert "bwrap missing" in error and "apt-get install bubblewrap" in error
    assert not (tmp_path / "out").exists()
