"""`make check NAME=…`: nbval on notebooks of exercises, and a line for each exercise.

Run as `python .ci/check.py [NAME ...]`: names of notebooks in exercises/, or paths; none: all.
It is `pytest --nbval-lax` with limits on time and with its own report. Exit code 0: all is done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXERCISES = ROOT / "exercises"

CELL_SECONDS = 60.0
"""For one cell; a check stops by itself after 20."""
NOTEBOOK_SECONDS = 600.0

DONE, WRONG, TO_DO, BY_HAND = "done", "wrong", "to do", "by hand"
DIFFERS = "Cell outputs differ"  # as nbval says it
CHANGED = "its check printed something else than a verdict: is its cell changed?"
SAID = {"done": DONE, "wrong": WRONG, "error": WRONG, "not done yet": TO_DO}


class Line(NamedTuple):
    """How an exercise stands, and why."""

    name: str
    status: str
    text: str = ""

    def __str__(self) -> str:
        return f"  {self.status:8}{self.name}" + (f": {self.text}" if self.text else "")


class Report:
    """A pytest plugin: what the cells of one notebook said, and nothing of pytest's own output."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.faults: list[str] = []
        self.order: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: Any) -> None:
        config.pluginmanager.unregister(name="terminalreporter")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.faults.append(last_line(str(report.longrepr)))

    def pytest_collection_finish(self, session: Any) -> None:
        for notebook in {id(item.parent): item.parent.nb for item in session.items}.values():
            self.order = [cell.get("id", "").rpartition("-")[0] for cell in notebook.cells]
            self.lines += marked_by_hand(notebook)

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        if call.when != "call":
            return
        name, _, part = item.cell.get("id", "").rpartition("-")
        error = "" if call.excinfo is None else reason(item, call.excinfo.value)
        if part == "check":
            self.lines.append(judged(name, printed(item), error))
        elif error:
            self.faults.append(f"the cell {item.cell.get('id') or item.name!r} fails: {error}")


def marked_by_hand(notebook: Any) -> Iterator[Line]:
    """The notebook's explanations."""
    for cell in notebook.cells:
        graded = cell.metadata.get("nbgrader", {})
        if graded.get("grade") and graded.get("solution"):
            yield Line(graded["grade_id"].removesuffix("-answer"), BY_HAND)


def printed(item: Any) -> str:
    """The last line of what the cell printed."""
    texts = [out.text for out in item.test_outputs or [] if out.get("name") == "stdout"]
    return last_line("".join(texts))


def judged(name: str, said: str, error: str) -> Line:
    """A check's cell prints `STATUS: NAME` and perhaps a sentence, or has failed with `error`."""
    status, _, rest = said.partition(": ")
    if status not in SAID or not f"{rest}: ".startswith(f"{name}: "):
        return Line(name, WRONG, CHANGED if error in ("", DIFFERS) else error)
    if status == DONE and error:
        return Line(name, WRONG, CHANGED if error == DIFFERS else error)
    return Line(name, SAID[status], rest.removeprefix(name).removeprefix(": "))


def reason(item: Any, error: BaseException) -> str:
    """Why the cell failed, in one line: the exception's own, or nbval's."""
    for output in item.test_outputs or []:
        if output.output_type == "error" and output.ename != "KeyboardInterrupt":
            return f"{output.ename}: {output.evalue}".splitlines()[0]
    text = last_line(str(error))
    return f"stopped after {CELL_SECONDS:g} seconds" if "Timeout" in text else text


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1].strip()


def summary(name: str, report: Report) -> list[str]:
    """The notebook's lines, and last how many there are of each kind."""
    counts = {status: 0 for status in (DONE, WRONG, TO_DO, BY_HAND)}
    for line in report.lines:
        counts[line.status] += 1
    hand = counts.pop(BY_HAND)
    total = ", ".join(f"{number} {status}" for status, number in counts.items())
    lines = sorted(report.lines, key=lambda line: report.order.index(line.name))
    texts = [name, *map(str, lines), *(f"  {fault}" for fault in report.faults)]
    return [*texts, total + (f"; {hand} to be read by a person" if hand else "")]


def give_up(name: str, report: Report) -> None:
    """Called when the notebook's time is up: nothing here can end its code, so all ends."""
    report.faults.append(f"stopped after {NOTEBOOK_SECONDS:g} seconds")
    print(*summary(name, report), sep="\n", flush=True)
    os._exit(1)


def check(path: Path) -> bool:
    """Run one notebook, print its lines; whether all of it is done."""
    report = Report()
    timer = Timer(NOTEBOOK_SECONDS, give_up, (path.stem, report))
    timer.daemon = True
    timer.start()
    options = ["--nbval-lax", "--nbval-current-env", f"--nbval-cell-timeout={CELL_SECONDS:g}"]
    options += ["-p", "no:cacheprovider", f"--rootdir={path.parent}", "-c", os.devnull, "-s"]
    try:
        status = pytest.main([*options, str(path)], plugins=[report])
    finally:
        timer.cancel()
    print(*summary(path.stem, report), sep="\n", flush=True)
    return status == pytest.ExitCode.OK and all(x.status in (DONE, BY_HAND) for x in report.lines)


def notebooks(names: Sequence[str]) -> list[Path]:
    """The notebooks' paths. Raises ValueError, with those there are, for one that is not there."""
    known = {path.stem: path for path in sorted(EXERCISES.glob("*.ipynb"))}
    paths = [known.get(name) or Path(name).resolve() for name in names] or list(known.values())
    for name, path in zip(names, paths, strict=False):
        if not (path.is_file() and path.suffix == ".ipynb"):
            raise ValueError(f"there is no notebook {name!r} in exercises/: {', '.join(known)}")
    return paths


def main(names: Sequence[str]) -> int:
    try:
        paths = notebooks(names)
    except ValueError as error:
        print(f"make: {error}", file=sys.stderr)
        return 2
    return 0 if all([check(path) for path in paths]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
