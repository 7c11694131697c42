"""One nbgrader gradebook for the class, merged by one writer: for formgrader and its exporters.

The folder of results becomes a course folder of nbgrader's. What people give by hand there, marks
and comments, is kept by every further run and shows in its reports.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import sqlite3
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..utils import require
from .course import ASSIGNMENT, Course, find_alembic
from .gradebook import write_whole
from .run import Row

CONFIG = """# nbgrader's: it makes this folder a course, so that formgrader opens it.
import os

c = get_config()  # noqa: F821
c.CourseDirectory.root = os.path.dirname(os.path.abspath(__file__))
"""


def merge(out: Path, course: Course, assignment: str, rows: Sequence[Row]) -> list[Row]:
    """Put ``rows`` into ``out/gradebook.db`` and return them with the marks given by hand.

    ``course``: the one that the jobs had copies of. The executed notebooks are put where
    formgrader looks for them. An answer that changed after it was marked is pending again.

    Raises:
        ValueError: the gradebook there is of another assignment, or of another version of it.
    """
    path = out / "gradebook.db"
    if not path.exists():
        _begin(out, course, assignment)
    find_alembic()
    api: Any = require("nbgrader.api", extra="grade")
    # nbgrader's own way of making a submission makes SQLAlchemy warn.
    with warnings.catch_warnings(), api.Gradebook(f"sqlite:///{path}") as gradebook:
        warnings.simplefilter("ignore")
        _check(gradebook, assignment, course, path)
        return [_put(gradebook, out, assignment, row) for row in rows]


def _begin(out: Path, course: Course, assignment: str) -> None:
    """The course's own database under the assignment's name, whole or not there."""
    scratch = out / "gradebook.db.part"
    shutil.copyfile(course.root / "gradebook.db", scratch)
    database = sqlite3.connect(scratch)
    with database:
        database.execute("UPDATE assignment SET name = ?", (assignment,))
    database.close()
    shutil.copytree(
        course.root / "source" / ASSIGNMENT, out / "source" / assignment, dirs_exist_ok=True
    )
    if not (out / "nbgrader_config.py").exists():
        write_whole(out / "nbgrader_config.py", CONFIG)
    os.replace(scratch, out / "gradebook.db")


def _check(gradebook: Any, assignment: str, course: Course, path: Path) -> None:
    known = {a.name: a for a in gradebook.assignments}
    if assignment not in known:
        raise ValueError(f"{path} is of {', '.join(known)}; use another --out for {assignment}.")
    there = {
        cell.name: cell.max_score for nb in known[assignment].notebooks for cell in nb.grade_cells
    }
    if there != {name: points for name, (points, _) in course.worth().items()}:
        raise ValueError(
            f"{path} is of another version of {assignment}, with other exercises or points; use"
            " another --out."
        )


def _put(gradebook: Any, out: Path, assignment: str, row: Row) -> Row:
    """One student's results into the gradebook; what is there by hand into the row."""
    gradebook.update_or_create_student(row.student)
    cells = row.result.cells
    if not cells and not _handed_in(gradebook, assignment, row.student):
        return row
    submission = gradebook.update_or_create_submission(assignment, row.student)
    changed = _put_notebooks(out, assignment, row)
    row = copy.deepcopy(row)
    for notebook in submission.notebooks:
        for grade in notebook.grades:
            cell = row.result.cells.get(grade.name)
            grade.auto_score = cell.score if cell is not None else None
            if grade.manual_score is None:
                grade.needs_manual_grade = grade.auto_score is None
                continue
            if grade.name in changed:
                grade.needs_manual_grade = True
            if cell is not None:
                cell.score, cell.manual = grade.manual_score, bool(grade.needs_manual_grade)
                cell.reason = "" if not cell.manual else "it changed after it was marked"
        for comment in notebook.comments:
            if comment.manual_comment:
                _say(row, comment.name, comment.manual_comment)
    gradebook.db.commit()
    if cells and row.result.status in ("partial", "error") and not row.result.unknown:
        row.result.status, row.result.reason = "graded", ""
    return row


def _say(row: Row, grade_id: str, text: str) -> None:
    """A grader's comment goes with the first of its exercise's cells."""
    exercise = grade_id.rpartition("-")[0]
    for cell in row.result.cells.values():
        if cell.exercise == exercise:
            cell.comment = text
            return


def _handed_in(gradebook: Any, assignment: str, student: str) -> bool:
    missing: Any = require("nbgrader.api", extra="grade").MissingEntry
    try:
        gradebook.find_submission(assignment, student)
    except missing:
        return False
    return True


def _put_notebooks(out: Path, assignment: str, row: Row) -> set[str]:
    """The executed notebooks, where formgrader looks; returns the cells whose text is another."""
    folder = out / "autograded" / row.student / assignment
    changed: set[str] = set()
    for name, text in row.result.notebooks.items():
        path = folder / name
        if path.is_file():
            before, now = _sources(path.read_text(encoding="utf-8")), _sources(text)
            changed |= {cell for cell in now if before.get(cell) != now[cell]}
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    return changed


def _sources(text: str) -> dict[str, Any]:
    try:
        return {cell["id"]: cell["source"] for cell in json.loads(text)["cells"]}
    except (ValueError, KeyError, TypeError):
        return {}


__all__ = ["merge"]
