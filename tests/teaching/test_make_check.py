"""`make check` sums up what nbval saw: a line for each exercise, and how many are done."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / ".ci"


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(CI))
    return importlib.import_module("check")


def write(path: Path, cells: dict[str, str]) -> Path:
    """A notebook of code cells by id; what a check's cell should print is stored with it."""
    made = []
    for name, source in cells.items():
        cell = nbformat.v4.new_code_cell(source, id=name)
        exercise, _, part = name.rpartition("-")
        if part == "check":
            cell.metadata["tags"] = ["nbval-check-output"]
            text = f"done: {exercise}\n"
            cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]
            cell.execution_count = 1
        made.append(cell)
    hand = nbformat.v4.new_markdown_cell("", id="why-answer")
    hand.metadata["nbgrader"] = {"grade": True, "solution": True, "grade_id": "why-answer"}
    nbformat.write(nbformat.v4.new_notebook(cells=[*made, hand]), path)
    return path


MIXED = {
    "late-check": "import time; time.sleep(60)",
    "stub-answer": "x = 1 / 0",
    "stub-check": "print('not done yet: stub')",
    "fine-check": "print('done: fine')",
    "off-check": "print('wrong: off: entry 1: is 3')",
    "raises-check": "raise ValueError('no')",
    "foreign-check": "print('done: fine')",
    "chatty-check": "print('hello'); print('done: chatty')",
}


def test_each_exercise_has_a_line_and_the_last_one_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "mixed.ipynb", MIXED)
    broken = tmp_path / "broken.ipynb"
    broken.write_text("{", encoding="utf-8")
    code = "import sys, check; check.CELL_SECONDS = 4.0; sys.exit(check.main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, str(path), str(broken)]
    done = subprocess.run(command, cwd=CI, capture_output=True, encoding="utf-8", check=False)
    changed = "its check printed something else than a verdict: is its cell changed?"
    *lines, name, fault, total = done.stdout.splitlines()
    assert lines == [
        "mixed",
        "  wrong   late: stopped after 4 seconds",
        "  to do   stub",
        "  done    fine",
        "  wrong   off: entry 1: is 3",
        "  wrong   raises: ValueError: no",
        f"  wrong   foreign: {changed}",
        f"  wrong   chatty: {changed}",
        "  by hand why",
        "  the cell 'stub-answer' fails: ZeroDivisionError: division by zero",
        "1 done, 5 wrong, 1 to do; 1 to be read by a person",
    ]
    assert name == "broken" and "JSON" in fault and total == "0 done, 0 wrong, 0 to do"
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("status", "passed", "done"), [("done", 0, True), ("to do", 0, False), ("done", 1, False)]
)
def test_a_notebook_is_done_when_all_is_and_nbval_has_no_complaint(
    check: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: str,
    passed: int,
    done: bool,
) -> None:
    def run(options: list[str], plugins: list[Any]) -> int:
        (report,) = plugins
        report.order += ["a", "why"]
        report.lines += [check.Line("why", check.BY_HAND), check.Line("a", status)]
        assert {"--nbval-lax", "--nbval-cell-timeout=60"} <= set(options)
        return passed

    monkeypatch.setattr(check.pytest, "main", run)
    assert check.check(Path("a.ipynb")) is done
    assert capsys.readouterr().out.splitlines()[:3] == ["a", f"  {status:8}a", "  by hand why"]


def test_a_notebook_that_takes_too_long_is_given_up_with_what_is_known(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(check.os, "_exit", ended.append)
    monkeypatch.setattr(check, "NOTEBOOK_SECONDS", 0.2)

    def run(options: list[str], plugins: list[Any]) -> int:
        (report,) = plugins
        report.order.append("a")
        report.lines.append(check.Line("a", check.DONE))
        until = time.monotonic() + 60
        while not ended and time.monotonic() < until:
            time.sleep(0.01)
        return 1

    monkeypatch.setattr(check.pytest, "main", run)
    check.check(Path("a.ipynb"))
    assert ended == [1]
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "a",
        "  done    a",
        "  stopped after 0.2 seconds",
        "1 done, 0 wrong, 0 to do",
    ]


def test_what_is_no_notebook_is_said(check: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["nope"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("make: there is no notebook 'nope' in exercises/: find-it, one-step")


def test_without_a_name_all_are_run(check: ModuleType) -> None:
    assert [path.stem for path in check.notebooks([])] == [
        path.stem for path in sorted((ROOT / "exercises").glob("*.ipynb"))
    ]
    assert check.notebooks(["prefixes"]) == [ROOT / "exercises" / "prefixes.ipynb"]
