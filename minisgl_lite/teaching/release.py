"""Cuts the students' notebooks out of the solutions, with nbgrader's own preprocessors.

``solutions/*.ipynb`` are the source. What lies between ``### BEGIN SOLUTION`` and ``### END
SOLUTION`` becomes a stub that names its exercise; marking guides (``### BEGIN MARK SCHEME``) and
hidden tests go; stored outputs go, except those that nbval compares, which say ``done: NAME``.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..utils import require
from .checks import EXERCISES, PUBLIC, load_exercises

COMPARED = "nbval-check-output"
"""Tag of a cell whose stored output is compared, and so stays."""

STUB = "# YOUR CODE HERE\nraise NotImplementedError()"
"""What nbgrader puts in place of a solution."""

PARTS = ("text", "answer", "check")

STAMP = "minisgl_lite"
"""Key of a notebook's metadata under which its version stands."""

Numbers = Callable[[str], str]
"""From an exercise's name to the token of the numbers in its question."""


def public_numbers(exercise: str) -> str:
    """The committed exercises' numbers: the same for everybody."""
    return PUBLIC


def secret_numbers(secret: bytes, student: str = "") -> Numbers:
    """A course's own numbers, or one student's: who has the secret can tell them, nobody else.

    Raises:
        ValueError: the secret is shorter than 16 bytes.
    """
    if len(secret) < 16:
        raise ValueError(
            f"the secret has {len(secret)} bytes, 16 are needed: python -c 'import secrets;"
            " print(secrets.token_hex())' > FILE makes one."
        )

    def numbers(exercise: str) -> str:
        message = "\0".join((student, exercise)).encode()
        return hmac.new(secret, message, hashlib.sha256).hexdigest()[:16]

    return numbers


def release(
    solutions: Path,
    exercises: Path,
    names: Sequence[str] = (),
    numbers: Numbers = public_numbers,
) -> list[Path]:
    """Write ``exercises/NAME.ipynb`` for each ``solutions/NAME.ipynb``; returns the paths.

    ``names``: only these. ``numbers``: which numbers the questions from templates get. Equal
    sources and numbers give equal bytes. Nothing is written unless all are sound.

    Raises:
        ValueError: no such notebook, or one that breaks a rule of ``check_source``.
        ImportError: nbgrader is not there (extra ``grade``).
    """
    sources = [solutions / f"{name}.ipynb" for name in names] or sorted(solutions.glob("*.ipynb"))
    if missing := [path for path in sources if not path.is_file()]:
        raise ValueError(f"there is no notebook {missing[0]}.")
    made = {path: student_notebook(path, numbers) for path in sources}
    exercises.mkdir(parents=True, exist_ok=True)
    written = []
    for path, text in made.items():
        target = exercises / path.name
        target.write_text(text, encoding="utf-8", newline="\n")
        written.append(target)
    return written


def student_notebook(path: Path, numbers: Numbers = public_numbers) -> str:
    """The text of the student's notebook for one solution notebook. Raises ValueError.

    Its metadata name the version (``version_of``), so that a grader knows what was handed out.
    """
    nbformat: Any = require("nbformat", extra="grade")
    notebook = _cut(path, numbers)
    notebook.metadata[STAMP] = version_of(path)
    return str(nbformat.writes(notebook)) + "\n"


def version_of(path: Path) -> dict[str, str]:
    """The version of what a solution notebook is cut to: this package's, and a digest.

    The digest is of the cells as handed out with public numbers. A course's own numbers are the
    same version, another question or other points are another one. Raises ValueError.
    """
    cells = [
        [cell.id, cell.cell_type, cell.source, cell.metadata.get("nbgrader", {}).get("points")]
        for cell in _cut(path, public_numbers).cells
    ]
    digest = hashlib.sha256(json.dumps(cells).encode()).hexdigest()
    return {"version": __version__, "digest": digest[:16]}


def put_numbers(notebook: Any, numbers: Numbers) -> Any:
    """Ask the questions from templates with these numbers; returns ``notebook``, changed."""
    load_exercises()
    for cell in notebook.cells:
        _put_numbers(cell, numbers)
    return notebook


def _cut(path: Path, numbers: Numbers) -> Any:
    nbformat: Any = require("nbformat", extra="grade")
    preprocessors: Any = require("nbgrader.preprocessors", extra="grade")
    notebook = nbformat.read(path, as_version=4)
    check_source(notebook, str(path))
    put_numbers(notebook, numbers)
    resources: dict[str, Any] = {}
    for step in (
        preprocessors.LockCells(),
        preprocessors.ClearSolutions(),
        preprocessors.ClearHiddenTests(),
        preprocessors.ClearMarkScheme(),
        preprocessors.ComputeChecksums(),
    ):
        notebook, resources = step.preprocess(notebook, resources)
    for cell in notebook.cells:
        _finish(cell)
    notebook.metadata = nbformat.from_dict({"kernelspec": notebook.metadata["kernelspec"]})
    _check_released(notebook, str(path))
    return notebook


def check_source(notebook: Any, where: str) -> None:
    """What a solution notebook must keep to.

    Each graded cell's id is its grade_id, ``<exercise>-<text|answer|check>``; each exercise in it
    is on the list, worth the points that its cells carry, and has an answer and a check.

    Raises:
        ValueError: the first cell that does not.
    """
    exercises = load_exercises()
    points: dict[str, float] = {}
    parts: dict[str, set[str]] = {}
    for cell in notebook.cells:
        graded = cell.metadata.get("nbgrader")
        if graded is None:
            continue
        grade_id = graded.get("grade_id")
        if cell.get("id") != grade_id:
            raise ValueError(f"{where}: cell {cell.get('id')!r} has the grade_id {grade_id!r}.")
        name, _, part = str(grade_id).rpartition("-")
        if part not in PARTS or name not in exercises:
            raise ValueError(f"{where}: {grade_id!r} is not <exercise>-<text|answer|check>.")
        if part in parts.setdefault(name, set()):
            raise ValueError(f"{where}: there are two cells {grade_id!r}.")
        _check_guide(cell, f"{where}: {grade_id!r}")
        parts[name].add(part)
        points[name] = points.get(name, 0) + (graded.get("points") or 0)
    for name, found in parts.items():
        needed = {"answer"} if EXERCISES[name].kind == "explain" else {"answer", "check"}
        if not needed <= found:
            raise ValueError(f"{where}: {name} lacks its cells {sorted(needed - found)}.")
        if points[name] != EXERCISES[name].points:
            raise ValueError(
                f"{where}: {name} is worth {points[name]:g} points here and"
                f" {EXERCISES[name].points} on the list."
            )


def _check_guide(cell: Any, where: str) -> None:
    """A marking guide is a part of the solution; nbgrader takes one away elsewhere only in tasks.

    Raises:
        ValueError: it stands outside of it.
    """
    inside = False
    for line in cell.source.split("\n"):
        if "SOLUTION" in line:
            inside = "BEGIN SOLUTION" in line
        elif "MARK SCHEME" in line and not inside:
            raise ValueError(f"{where}: its marking guide must end before END SOLUTION.")


def _exercise_of(cell: Any) -> tuple[str, str]:
    """(exercise, part) of a graded cell, two empty texts for another."""
    name, _, part = cell.metadata.get("nbgrader", {}).get("grade_id", "").rpartition("-")
    return name, part


def _put_numbers(cell: Any, numbers: Numbers) -> None:
    """Ask a question from a template with its numbers, and let its check know which they are.

    So does the cell that shows the run of a find task, ``<exercise>-run``.
    """
    name, part = _exercise_of(cell)
    shown = str(cell.get("id", "")).removesuffix("-run")
    if shown in EXERCISES and cell.id == f"{shown}-run" and (token := numbers(shown)) != PUBLIC:
        cell.source = cell.source.replace(f'"{shown}"', f'"{shown}", "{token}"', 1)
    if name and (template := EXERCISES[name].template) is not None:
        token = numbers(name)
        if part == "text":
            cell.source = template.text(template.task(token)).strip()
        elif part == "check" and token != PUBLIC:
            cell.source = f'check("{name}", "{token}")'


def _finish(cell: Any) -> None:
    """Name the exercise in its stub; drop outputs that nobody compares."""
    if cell.cell_type != "code":
        return
    name, _ = _exercise_of(cell)
    if name and EXERCISES[name].kind in ("predict", "find"):
        # What is to be replaced here is a value, which stands above as None.
        cell.source = re.sub(f"^{re.escape(STUB)}$\n?", "", cell.source, flags=re.M).rstrip()
    stub = f'raise NotImplementedError("{name}")'
    cell.source = cell.source.replace("raise NotImplementedError()", stub)
    compared = COMPARED in cell.metadata.get("tags", [])
    # nbval takes a cell with outputs but without a count for one that was never run.
    cell.execution_count = 0 if compared else None
    cell.outputs = cell.outputs if compared else []


def _check_released(notebook: Any, where: str) -> None:
    """No line that only solutions have is left."""
    for cell in notebook.cells:
        for mark in ("BEGIN SOLUTION", "END SOLUTION", "MARK SCHEME", "HIDDEN TESTS"):
            if mark in cell.source:
                raise ValueError(f"{where}: cell {cell.get('id')!r} still has {mark!r} in it.")


def read_roster(path: Path) -> list[str]:
    """The students' ids, one on each line, in order.

    Raises:
        ValueError: an id that stands there twice, or can't be a folder's name.
    """
    names = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    names = [name for name in names if name]
    for name in names:
        if name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
            raise ValueError(f"{path}: {name!r} can't be the name of a folder.")
        if names.count(name) > 1:
            raise ValueError(f"{path}: {name!r} stands there twice.")
    return names
