"""What students hand in, as it comes: read without trust, put in order, nothing dropped silently.

Every entry of the folder is somebody's and gets a row, whatever is in it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..teaching.release import STAMP
from ..utils import require
from .oddities import oddities

MAX_BYTES = 20 * 2**20
"""Of one notebook."""
TIME = "timestamp.txt"
"""What nbgrader's collecting writes beside a submission: when it was handed in."""
SHOWN = "shown"
DONE = re.compile(r"done: ([\w-]{1,60})\n?\Z", re.ASCII)
LOOKED_AT = 50
"""Outputs of a cell, and lines of each, in which a check's line is looked for."""
MAX_CELLS, MAX_TEXT = 1000, 2 * 2**20
"""Cells of one notebook, and characters of all their sources."""


@dataclass
class Submission:
    """One student's files.

    ``problem``: why they can't be graded, or empty. ``handed_in``: what their ``timestamp.txt``
    says, unread, or empty. ``shown``: exercises below whose check "done" stood, as if it had run.
    """

    student: str
    notebooks: dict[str, bytes] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    problem: str = ""
    handed_in: str = ""
    shown: set[str] = field(default_factory=set)


def read_class(folder: Path, assignment: str, names: tuple[str, ...]) -> list[Submission]:
    """A submission for each entry of ``folder``, by name in order of code points.

    ``folder`` has a folder for each student, with the notebooks in it or, as nbgrader has it, in
    one named like the assignment.

    Raises:
        ValueError: ``folder`` isn't one, or there is nothing in it.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder of submissions.")
    entries = sorted(entry.name for entry in os.scandir(folder) if not _left_by_a_system(entry))
    if not entries:
        raise ValueError(f"there is nothing in {folder}.")
    found: dict[str, Submission] = {}
    for entry in entries:
        # Bytes that are no UTF-8 can't stand in a gradebook; they are spelled out.
        student = os.fsencode(entry).decode("utf-8", "backslashreplace")
        while student in found or (student != entry and student in entries):
            student += " (bytes)"
        found[student] = _read_one(folder / entry, student, assignment, names)
    return [found[student] for student in sorted(found)]


def _left_by_a_system(entry: os.DirEntry[str]) -> bool:
    """A hidden file, or a folder that programs make by themselves: nobody's."""
    hidden_file = entry.name.startswith(".") and not entry.is_dir(follow_symlinks=False)
    return hidden_file or entry.name in ("__MACOSX", ".ipynb_checkpoints", ".git")


def _read_one(path: Path, student: str, assignment: str, names: tuple[str, ...]) -> Submission:
    submission = Submission(student)
    try:
        if path.is_symlink():
            submission.problem = "the folder is a symbolic link; links are not followed"
        elif not path.is_dir():
            submission.problem = "this is a file; a folder for each student is expected"
        else:
            inner = path / assignment
            nested = inner.is_dir() and not inner.is_symlink()
            folder = inner if nested else path
            submission.handed_in = _time_in(folder / TIME)
            _read_notebooks(folder, names, submission)
    except OSError as error:
        submission.problem = f"can't be read: {error.strerror or error}"
    return submission


def _time_in(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(100).decode("utf-8", "replace").strip()


def _read_notebooks(folder: Path, names: tuple[str, ...], submission: Submission) -> None:
    found = {path.name: path for path in sorted(folder.iterdir()) if path.suffix == ".ipynb"}
    for path in found.values():
        if path.is_symlink():
            submission.problem = f"{path.name} is a symbolic link; links are not followed"
            return
        if not path.is_file():  # a pipe would never end
            submission.problem = f"{path.name} is no file"
            return
    wanted = [f"{name}.ipynb" for name in names]
    extra = [name for name in found if name not in wanted]
    absent = [name for name in wanted if name not in found]
    if len(absent) == 1 and len(extra) == 1:
        submission.flags.append(f"{extra[0]} was taken for {absent[0]}")
        found[absent[0]] = found.pop(extra[0])
        absent, extra = [], []
    submission.flags += [f"{name} is not part of the assignment" for name in extra]
    submission.flags += [f"{name} is missing" for name in absent]
    if len(absent) == len(wanted):
        submission.problem = f"none of {', '.join(wanted)} is there"
        return
    for name in wanted:
        if name in found:
            if found[name].stat().st_size > MAX_BYTES:
                submission.problem = f"{name} has more than {MAX_BYTES // 2**20} MB"
                return
            submission.notebooks[name] = found[name].read_bytes()


def shown_in(notebook: Any) -> set[str]:
    """The exercises that were "done" by the outputs that ``parse`` took away.

    A notebook is handed out with those outputs, below cells that have not run.
    """
    return set(notebook.metadata.get(SHOWN, ()))


class Unreadable(ValueError):
    """A file that is no notebook; the message says why."""


def put_in_order(content: bytes, released: Any) -> tuple[bytes, list[str]]:
    """A submitted notebook as nbgrader can take it, and what was done to it.

    Graded cells are found by their id or grade_id and get the released metadata back; a second cell
    with the same id is kept as text that isn't graded.

    Raises:
        Unreadable: no JSON, no notebook, or none of the released cells is in it.
    """
    return order(parse(content), released)


def version_in(notebook: Any) -> dict[str, str]:
    """The version that a notebook says it was handed out as, or nothing."""
    stamp = notebook.metadata.get(STAMP)
    stamp = stamp if isinstance(stamp, Mapping) else {}
    said = {key: str(stamp.get(key, "")) for key in ("version", "digest")}
    return said if all(re.fullmatch(r"[\w.+-]{1,40}", text) for text in said.values()) else {}


def order(notebook: Any, released: Any) -> tuple[bytes, list[str]]:
    """As ``put_in_order``, for what was parsed; ``notebook`` changes. Raises Unreadable."""
    nbformat: Any = require("nbformat", extra="grade")
    ours = {c.id: c for c in released.cells if "nbgrader" in c.metadata}
    others = {c.id: c for c in released.cells if c.id not in ours}
    flags: list[str] = []
    seen: set[str] = set()
    spec = notebook.metadata.get("kernelspec")
    kernel = spec.get("language", "python") if isinstance(spec, Mapping) else "python"
    if str(kernel).lower() != "python":
        flags.append(f"written for another kernel: {str(kernel)[:40]}")
    notebook.metadata = dict(released.metadata)
    for cell in notebook.cells:
        marks = cell.metadata.get("nbgrader")
        marks = marks if isinstance(marks, Mapping) else {}
        grade_id = next((i for i in (marks.get("grade_id"), cell.get("id")) if i in ours), None)
        cell.metadata = {}
        if grade_id is None:
            if cell.get("id") in others:
                cell.metadata = dict(others[cell.id].metadata)
            continue
        if grade_id in seen:
            flags.append(f"cell {grade_id} is there twice; the first one counts")
            cell.id = f"copy-{len(flags)}-{grade_id}"[:64]
            continue
        seen.add(grade_id)
        flags += _changes(cell, ours[grade_id], marks)
        cell.id, cell.metadata = grade_id, dict(ours[grade_id].metadata)
    if not seen:
        raise Unreadable("it has none of the assignment's cells")
    flags += [f"cell {i} is missing" for i in ours if i not in seen and not i.endswith("-text")]
    flags += oddities(notebook, released)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    # Half of a surrogate pair has no bytes.
    return nbformat.writes(notebook).encode("utf-8", "replace"), flags


def parse(content: bytes) -> Any:
    """A submitted notebook. Raises Unreadable."""
    nbformat: Any = require("nbformat", extra="grade")
    if not content.strip():
        raise Unreadable("it is empty")
    try:
        data = json.loads(content.decode("utf-8-sig"))
        notebook = nbformat.reads(json.dumps(_slim(data)), as_version=4)
    except RecursionError:
        raise Unreadable("its JSON is nested too deeply") from None
    except Unreadable:
        raise
    except Exception as error:  # nbformat's own come in many classes
        line = (str(error).splitlines() or [""])[0][:200]
        raise Unreadable(f"it is no notebook: {line or type(error).__name__}") from None
    if not isinstance(notebook.get("cells"), list) or not notebook.cells:
        raise Unreadable("it has no cells")
    text = 0
    for number, cell in enumerate(notebook.cells):
        if not isinstance(cell, dict) or not isinstance(cell.get("source", ""), str):
            raise Unreadable(f"its cell {number} is no cell")
        cell.setdefault("metadata", {})
        cell["source"] = cell.get("source", "").replace("\r\n", "\n")
        if not re.fullmatch(r"[\w-]{1,64}", str(cell.get("id")), re.ASCII):
            cell["id"] = f"cell-{number}"
        if cell.get("cell_type") == "code":
            cell["execution_count"] = None
        elif cell.get("cell_type") not in ("markdown", "raw"):
            raise Unreadable(f"its cell {number} is no cell")
        text += len(cell["source"])
    if text > MAX_TEXT:
        raise Unreadable(f"its cells have more than {MAX_TEXT // 2**20} MB of text")
    return notebook


def _slim(data: Any) -> Any:
    """A notebook's JSON without what isn't looked at, which could be anything and any amount of it.

    Raises:
        Unreadable: it has more cells than anybody writes.
    """
    if not isinstance(data, dict):
        return data
    metadata = data.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    data["metadata"] = {key: metadata[key] for key in (STAMP, "kernelspec") if key in metadata}
    shown: set[str] = set()
    sheets = data.get("worksheets") or [data]  # formats 3 and 4
    if sum(len(sheet.get("cells", ())) for sheet in sheets) > MAX_CELLS:
        raise Unreadable(f"it has more than {MAX_CELLS} cells")
    for cell in (cell for sheet in sheets for cell in sheet.get("cells", ())):
        if isinstance(cell, dict):
            marks = cell.get("metadata", {}).get("nbgrader")
            marks = marks if isinstance(marks, dict) else {}
            plain = {k: v for k, v in marks.items() if isinstance(v, (str, int, float))}
            cell["metadata"] = {"nbgrader": plain} if plain else {}
            cell.pop("attachments", None)
            if cell.get("cell_type") == "code":
                shown |= _done_below(cell)
                cell["outputs"] = []
    data["metadata"][SHOWN] = sorted(shown)
    return data


def _done_below(cell: dict[str, Any]) -> set[str]:
    """The exercises that are "done" by a code cell's stored outputs, if it says that it has run."""
    if cell.get("execution_count") in (None, 0):
        return set()
    outputs = cell.get("outputs")
    shown: set[str] = set()
    for output in outputs[:LOOKED_AT] if isinstance(outputs, list) else ():
        text = output.get("text") if isinstance(output, dict) else None
        lines = text[:LOOKED_AT] if isinstance(text, list) else [text]
        for line in lines:
            if isinstance(line, str) and (found := DONE.match(line)):
                shown.add(found[1])
    return shown


def _changes(cell: Any, ours: Any, marks: Mapping[str, Any]) -> Iterator[str]:
    """What was changed in a cell that was handed out locked."""
    right = ours.metadata["nbgrader"]
    if "points" in right and marks.get("points", right["points"]) != right["points"]:
        yield f"cell {ours.id}: points were changed to {str(marks.get('points'))[:20]}"
    if right["locked"] and cell.source.strip() != ours.source.strip():
        yield f"cell {ours.id}: the locked text was changed"


__all__ = [
    "Submission",
    "Unreadable",
    "order",
    "parse",
    "put_in_order",
    "read_class",
    "shown_in",
    "version_in",
]
