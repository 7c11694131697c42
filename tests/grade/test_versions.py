"""An older hand-out is graded by its own version's checks where those are installed."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from minisgl_lite.cli import main
from minisgl_lite.grade import sandbox
from minisgl_lite.grade.course import Course
from minisgl_lite.grade.intake import Submission, parse, put_in_order
from minisgl_lite.grade.run import Settings, _Desk
from minisgl_lite.grade.versions import Version, fitting, older_version, present_version
from minisgl_lite.teaching.release import STAMP, release, secret_numbers, version_of

from .submissions import NAME, RIGHT, ROOT, answered, handed_out, points

FILE = f"{NAME}.ipynb"
SOURCE = ROOT / "solutions" / FILE
DIGEST = handed_out().metadata[STAMP]["digest"]
SECRET = b"0123456789abcdef"


def stamped(**stamp: str) -> Any:
    notebook = parse(answered())
    notebook.metadata[STAMP] = stamp
    return notebook


@pytest.mark.parametrize(
    "source", sorted((ROOT / "solutions").glob("*.ipynb")), ids=lambda p: p.stem
)
def test_a_released_notebook_says_which_version_it_is(source: Path, tmp_path: Path) -> None:
    committed = nbformat.read(ROOT / "exercises" / source.name, as_version=4)
    assert committed.metadata[STAMP] == version_of(source)
    (drawn,) = release(source.parent, tmp_path, [source.stem], secret_numbers(SECRET, "ada"))
    assert nbformat.read(drawn, as_version=4).metadata[STAMP] == version_of(source), "same version"


def test_another_question_is_another_version(tmp_path: Path) -> None:
    notebook = nbformat.read(SOURCE, as_version=4)
    next(c for c in notebook.cells if c.id == "page-slots-text").source += " Or not."
    nbformat.write(notebook, tmp_path / FILE)
    assert version_of(tmp_path / FILE)["digest"] != DIGEST


OLDER = Version(Path("old"), {}, {FILE: "0" * 16}, "0.0.9", Path("package"))
PRESENT = Version(Path("new"), {}, {FILE: DIGEST})


@pytest.mark.parametrize(
    ("notebook", "number", "words"),
    [
        (stamped(version="0.1.0", digest=DIGEST), 0, ""),
        (
            stamped(version="0.0.9", digest="0" * 16),
            1,
            "handed out as version 0.0.9, and graded by",
        ),
        (stamped(version="0.0.8", digest="1" * 16), 0, "which is not installed"),
        (stamped(version="<b>", digest="0" * 16), 0, ""),
        (stamped(), 0, ""),
    ],
    ids=["present", "older", "not-installed", "nonsense", "says-nothing"],
)
def test_which_version_fits(notebook: Any, number: int, words: str) -> None:
    chosen, flags = fitting({FILE: notebook}, [PRESENT, OLDER])
    assert chosen == number
    assert [words in flag for flag in flags] == [True] * bool(words)


def test_two_notebooks_of_different_versions_are_flagged() -> None:
    both = {FILE: stamped(version="0.0.9", digest="0" * 16), "one-step.ipynb": stamped()}
    number, flags = fitting(both, [PRESENT, OLDER])
    assert number == 0 and len(flags) == 1


def test_a_courses_own_numbers_are_no_changed_text(tmp_path: Path) -> None:
    """What a course with a secret hands out comes back without a flag, each student's own too."""
    course = Course.create(tmp_path / "course", [SOURCE])
    settings = Settings(secret=SECRET, per_student=True)
    desk = _Desk([present_version(course, [SOURCE])], settings)
    for student in ("ada", "bob"):
        numbers = secret_numbers(SECRET, student)
        (path,) = release(SOURCE.parent, tmp_path / student, [NAME], numbers)
        assert put_in_order(path.read_bytes(), course.released()[FILE])[1], "other numbers"
        submission = Submission(student, {FILE: path.read_bytes()})
        assert desk.request(submission)[2] == ""
        assert submission.flags == []
    bobs = Submission("ada", {FILE: path.read_bytes()})
    desk.request(bobs)
    assert "the locked text was changed" in bobs.flags[0], "somebody else's questions"


def test_a_file_that_reading_stumbles_over_is_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: Any) -> Any:
        raise TypeError("a list has no such thing")

    monkeypatch.setattr("minisgl_lite.grade.run.order", stumble)
    desk = _Desk([Version(tmp_path, {FILE: handed_out()}, {})], Settings())
    assert desk.request(Submission("ada", {FILE: answered()}))[2].endswith("read: TypeError")


# ---- an older version, made of this one ----------------------------------------------------------


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which page-slots was worth 6 points and asked for 64-bit slots."""
    folder = tmp_path_factory.mktemp("older")
    ignore = shutil.ignore_patterns("__pycache__", "static")
    for name in ("minisgl_lite", "solutions", "exercises"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    module = folder / "minisgl_lite" / "teaching" / "exercises" / "page_slots.py"
    text = module.read_text(encoding="utf-8")
    text = text.replace("called, torch.int32", "called, torch.int64").replace(
        "points=4", "points=6"
    )
    text = text.replace(
        "    for _ in range(3):\n        compare(", "    for _ in ():\n        compare("
    )
    module.write_text(text, encoding="utf-8")
    version = folder / "minisgl_lite" / "__init__.py"
    content = version.read_text(encoding="utf-8").replace("0.1.0", "0.0.9")
    version.write_text(content, encoding="utf-8")
    notebook = nbformat.read(folder / "solutions" / FILE, as_version=4)
    cells = {cell.id: cell for cell in notebook.cells}
    cells["page-slots-check"].metadata.nbgrader.points = 6
    cells["page-slots-text"].source += " The slots have 64 bits."
    nbformat.write(notebook, folder / "solutions" / FILE)
    command = [sys.executable, "-m", "minisgl_lite", "release", NAME]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.mark.grading
def test_an_older_version_is_read_from_its_folder(older: Path, tmp_path: Path) -> None:
    version = older_version(older, [NAME, "not-there-then"], tmp_path / "course")
    assert version.name == "0.0.9" and list(version.digests) == [FILE]
    assert version.digests[FILE] != DIGEST
    with pytest.raises(ValueError, match="has no older version"):
        older_version(tmp_path, [NAME], tmp_path / "none")
    notebook = json.loads((ROOT / "exercises" / FILE).read_text(encoding="utf-8"))
    notebook["metadata"] = {}
    for name in ("solutions", "exercises"):
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE).write_text(json.dumps(notebook), encoding="utf-8")
    with pytest.raises(ValueError, match="does not say which version"):
        older_version(tmp_path, [NAME], tmp_path / "none")


@pytest.mark.grading
@pytest.mark.skipif(bool(sandbox.missing()), reason="no sandbox here")
def test_an_older_notebook_is_graded_by_its_own_versions_checks(
    older: Path, tmp_path: Path
) -> None:
    notebook = nbformat.read(older / "exercises" / FILE, as_version=4)
    cells = {cell.id: cell for cell in notebook.cells}
    cells["page-slots-answer"].source = RIGHT.replace("int32", "int64")
    for student, content in {"ada": json.dumps(notebook).encode(), "bob": answered()}.items():
        (tmp_path / "in" / student).mkdir(parents=True)
        (tmp_path / "in" / student / FILE).write_bytes(content)
    rows = {}
    for out, options in {"with": ["--older", str(older)], "without": []}.items():
        command = [str(tmp_path / "in"), "--assignment", NAME, "--out", str(tmp_path / out)]
        assert main(["grade", *command, *options]) == 0
        with (tmp_path / out / "gradebook.csv").open(encoding="utf-8", newline="") as file:
            rows[out] = {row["student"]: row for row in csv.DictReader(file)}
    assert rows["with"]["bob"]["score"] == rows["without"]["bob"]["score"] == f"{points():g}"
    ada = rows["with"]["ada"]
    assert (ada["status"], ada["score"]) == ("graded", "6")
    assert ada["package"].startswith("0.0.9+") and "version 0.0.9, and graded by" in ada["flags"]
    ada = rows["without"]["ada"]
    assert (ada["status"], ada["score"]) == ("graded", "0")
    assert "handed out as version 0.0.9" in ada["flags"] and "not installed" in ada["flags"]
