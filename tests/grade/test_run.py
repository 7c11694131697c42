"""A class's run: whatever happens to a job or to the grader, what is done is kept."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from minisgl_lite.grade import run as run_module
from minisgl_lite.grade import sandbox
from minisgl_lite.grade.forking import Template
from minisgl_lite.grade.gradebook import gradebook_csv
from minisgl_lite.grade.intake import Submission
from minisgl_lite.grade.job import Cell, Result
from minisgl_lite.grade.judging import HIDDEN
from minisgl_lite.grade.run import Row, Settings, Store, changes, grade_class, pack_course, run_job
from minisgl_lite.grade.versions import Version

from .submissions import ROOT, answered, handed_out, write
from .submissions import few as few_cases

FILE = "pages-and-slots.ipynb"
DIGEST = handed_out().metadata["minisgl_lite"]["digest"]


@pytest.fixture
def course(tmp_path: Path) -> Path:
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "gradebook.db").write_bytes(b"marks")
    return tmp_path / "course"


def graded(score: float | None = 4.0, reason: str = "") -> Result:
    status = "graded" if score is not None else "error"
    return Result(status, {"page-slots-check": Cell("page-slots", score, 4.0, reason)})


@pytest.fixture
def fake_job(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Jobs give these students' results at once; returns whose job was run."""
    asked: list[str] = []

    def job(course: bytes, request: bytes, seconds: float) -> str:
        asked.append(json.loads(request)["student"])
        return graded().to_json()

    monkeypatch.setattr(run_module, "run_job", job)
    return asked


def submissions(*names: str) -> list[Submission]:
    return [Submission(name, {FILE: answered()}) for name in names]


def grade(folder: Path, course: Path, who: list[Submission], **options: Any) -> list[Row]:
    store = Store(folder / "results")
    settings = Settings(per_student=True, **{"workers": 1, **options.pop("settings", {})})
    present = Version(course, {FILE: handed_out()}, {FILE: DIGEST})
    return grade_class(who, present, store, settings, **options)


def test_resume_keeps_what_is_done_and_unchanged(
    tmp_path: Path, course: Path, fake_job: list[str]
) -> None:
    grade(tmp_path, course, submissions("a", "b"))
    changed = [Submission("b", {FILE: answered(answer="page_slots = None")}), *submissions("c")]
    rows = grade(tmp_path, course, [*submissions("a"), *changed], resume=True)
    assert fake_job == ["a", "b", "b", "c"]
    assert [row.student for row in rows] == ["a", "b", "c"]
    grade(tmp_path, course, submissions("a"), resume=True, settings={"secret": b"0123456789abcdef"})
    assert fake_job[-1] == "a", "another secret is another input"


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_rows_are_the_same_whatever_the_workers_and_the_order(
    tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Jobs of a class of six that end in another order than they began."""
    ended: list[str] = []

    def job(packed: bytes, request: bytes, seconds: float) -> str:
        student = json.loads(request)["student"]
        time.sleep(0.05 * (ord("g") - ord(student)) if workers > 1 else 0)
        ended.append(student)
        return graded(float(ord(student)), f"wrong: {student}").to_json()

    monkeypatch.setattr(run_module, "run_job", job)
    rows = grade(tmp_path, course, submissions(*"abcdef"), settings={"workers": workers})
    assert "".join(sorted(ended)) == "abcdef" and (workers == 1) == (ended == sorted(ended))
    lines = gradebook_csv(rows).splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == [f'"{name}"' for name in "abcdef"]
    marks = [f'"{ord(name)}"' for name in "abcdef"]
    assert [line.split(",")[2] for line in lines] == marks


@pytest.mark.parametrize(
    ("score", "reason", "flagged"),
    [
        (0.0, "wrong: slot 8", True),
        (0.0, "its check was never asked", True),
        (0.0, HIDDEN["wrong"], False),
        (4.0, "", False),
        (None, "the kernel died", False),
    ],
    ids=["wrong", "never-asked", "hidden", "right", "not-known"],
)
def test_outputs_that_say_done_of_what_is_not_are_flagged(
    tmp_path: Path,
    course: Path,
    monkeypatch: pytest.MonkeyPatch,
    score: float | None,
    reason: str,
    flagged: bool,
) -> None:
    def by_hand(notebook: Any, cells: dict[str, Any]) -> None:
        cells["page-slots-check"].execution_count = 7  # and below it stands what is handed out

    monkeypatch.setattr(run_module, "run_job", lambda *_: graded(score, reason).to_json())
    (row,) = grade(tmp_path, course, [Submission("a", {FILE: answered(by_hand)})])
    flag = '"done" stood below the check of page-slots, and it is not'
    assert row.result.flags == [flag] * flagged


def test_a_disk_that_is_full_loses_nothing(
    tmp_path: Path, course: Path, fake_job: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    grade(tmp_path, course, submissions("a"))
    before = {p: p.read_bytes() for p in (tmp_path / "results").iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            grade(tmp_path, course, submissions("a", "b"))
    assert {p: p.read_bytes() for p in (tmp_path / "results").iterdir()} == before
    rows = grade(tmp_path, course, submissions("a", "b"), resume=True)
    assert [row.result.score for row in rows] == [4, 4]
    assert fake_job.count("a") == 2, "the first time, and when the disk was full"


def test_a_job_that_cannot_be_run_is_a_row(
    tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(*_: Any) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run_module, "run_job", job)
    (row,) = grade(tmp_path, course, submissions("a"))
    assert (row.result.status, row.result.score) == ("error", None)
    assert row.result.reason == "its job could not be run: No space left on device"


def job_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str) -> None:
    """In place of the grader's job, `code` is run."""
    (tmp_path / "job.py").write_text(code)
    monkeypatch.setattr(run_module, "JOB", [sys.executable, str(tmp_path / "job.py")])
    monkeypatch.setattr(run_module, "FORKED", False)
    monkeypatch.setattr(run_module, "GRACE", 1.0)


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed", "its job was ended by SIGKILL"),
        ("raise MemoryError('too much')", "error", "the grader failed: MemoryError: too much"),
        ("import time; time.sleep(60)", "timeout", "not done within 0.5 seconds"),
        ("import sys; open(sys.argv[3], 'w').write('{')", "error", "gave no result"),
    ],
)
def test_a_job_that_goes_wrong_has_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, status: str, reason: str
) -> None:
    job_does(monkeypatch, tmp_path, code)
    result = run_module._read_result(run_job(b"{}", b"{}", 0.5))
    assert (result.status, result.score) == (status, None)
    assert reason in result.reason


@pytest.mark.parametrize("forked", [True, False], ids=["forked", "started-anew"])
def test_a_folder_at_hand_is_not_imported_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: bool
) -> None:
    """Submissions are folders, and a student can be called minisgl_lite, or torch."""
    monkeypatch.setattr(run_module, "FORKED", forked)
    monkeypatch.setattr(Template, "_one", None)
    monkeypatch.setattr(run_module, "GRACE", 60.0)
    for name in ("minisgl_lite", "torch", "nbgrader", "base64"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep)  # as in export PYTHONPATH=:$PYTHONPATH
    result = Result.from_json(run_job(b"{}", b"{}", 60.0))
    assert not (tmp_path / "ran").exists()
    assert result.reason == "the grader failed: KeyError: 'notebooks'"


def test_what_travels_to_a_worker_is_the_same_for_the_same_content(
    tmp_path: Path, course: Path
) -> None:
    (tmp_path / "package" / "__pycache__").mkdir(parents=True)
    (tmp_path / "package" / "x.py").write_text("1")
    (tmp_path / "package" / "__pycache__" / "x.pyc").write_text("1")
    packed = json.loads(pack_course(course, tmp_path / "package"))
    assert set(packed) == {"course/gradebook.db", "package/minisgl_lite/x.py"}
    assert pack_course(course) == pack_course(course)


def test_ctrl_c_ends_the_jobs_and_keeps_what_is_done(
    tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = graded().to_json()
    code = f"""import json, sys, time
if json.load(open(sys.argv[2]))["student"] != "a":
    time.sleep(60)
open(sys.argv[3], "w").write({text!r})
"""
    job_does(monkeypatch, tmp_path, code)
    store = tmp_path / "results"

    def interrupt() -> None:
        while not (store.is_dir() and list(store.glob("*.json"))):
            time.sleep(0.05)
        time.sleep(0.5)  # the second job has begun
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        grade(tmp_path, course, submissions("a", "b", "c"))
    assert time.monotonic() - begin < 20
    assert not run_module._running
    assert Store(store).read("a") is not None and Store(store).read("b") is None


def test_changes_say_whose_mark_and_why() -> None:
    origin = dict.fromkeys(run_module.ORIGINS, "1")
    before = [Row(name, graded(0.0, "wrong"), origin) for name in ("a", "b", "c")]
    after = [
        Row("a", graded(0.0, "wrong"), origin),
        Row("b", graded(4.0), origin | {"package": "2"}),
        Row("c", graded(None, "the kernel died"), origin),
        Row("d", graded(4.0), origin),
        run_module.without_submission("of the roster"),
    ]
    after[2].result.reason = "the kernel died"
    assert changes(before, after) == [
        "b: 0 -> 4 (page-slots 0 -> 4): another version of the checks or the engine",
        "c: 0 -> not known (page-slots 0 -> not known): the kernel died",
        "d: new, 4",
    ]


def test_a_zero_that_stands_for_what_is_not_known_is_none() -> None:
    cells = {
        "a-check": Cell("a", 0.0, 1.0),
        "b-check": Cell("b", None, 4.0),
        "c-answer": Cell("c", None, 4.0, manual=True),
    }
    assert Result("partial", cells).score is None
    cells["b-check"].score = 0.0
    assert Result("graded", cells).score == 0
    cells["a-check"].score, cells["b-check"].score = 1.0, None
    assert Result("partial", cells).score == 1


@pytest.mark.grading
@pytest.mark.skipif(bool(sandbox.missing()), reason="no sandbox here")
def test_a_grader_that_is_killed_leaves_no_process_and_resumes(tmp_path: Path) -> None:
    """With a locale that isn't UTF-8, too, and names that it can't write."""
    cases = {name: few_cases()["right"] for name in ("ada", "学生", "Núñez")}
    write(tmp_path / "in", cases)
    options = ["--assignment", "pages-and-slots", "--out", str(tmp_path / "out")]
    command = [sys.executable, "-m", "minisgl_lite", "grade", str(tmp_path / "in"), *options]
    command += ["--workers", "1", "--resume"]
    environment = os.environ | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    environment |= {"TMPDIR": str(tmp_path), "PYTHONIOENCODING": ""}
    grader = subprocess.Popen(command, env=environment, cwd=ROOT)
    while not list((tmp_path / "out" / "results").glob("*.json")):
        assert grader.poll() is None
        time.sleep(0.2)
    grader.kill()
    grader.wait()
    time.sleep(2)
    mine = [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in _read(p)]
    assert mine == []
    first = {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "results").glob("*.json")}
    assert len(first) < 3
    done = subprocess.run(command, env=environment, cwd=ROOT, check=False)
    assert done.returncode == 0
    assert all(path.stat().st_mtime_ns == at for path, at in first.items())
    book = (tmp_path / "out" / "gradebook.csv").read_text(encoding="utf-8")
    assert all(name in book for name in cases)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
