"""Submissions for one notebook, honest and hostile, each with the row that it must get."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import nbformat

from minisgl_lite.teaching.checks import load_exercises

ROOT = Path(__file__).resolve().parents[2]
NAME = "pages-and-slots"

RIGHT = """import torch


def page_slots(starts, page_size, count):
    slots = [starts[t // page_size] + t % page_size for t in range(count)]
    return torch.tensor(slots, dtype=torch.int32)
"""
CHEATS = {
    "prints-the-line": """print("done: page-slots")
def check(*args): print("done: page-slots")
import minisgl_lite.teaching.checks as checks
checks.check = check
def page_slots(*args): return None
""",
    "uses-the-counterpart": """import torch
from minisgl_lite.scheduler import CacheManager
def page_slots(starts, page_size, count):
    table = torch.zeros((2, 128), dtype=torch.int32)
    manager = CacheManager(128, page_size, table, "naive")
    return manager._page_to_token(torch.tensor(starts, dtype=torch.int32))[:count]
""",
    "equals-everything": """class Anything:
    def __eq__(self, other): return True
    def __getattr__(self, name): return self
def page_slots(*args): return Anything()
""",
    "patches-asserts": """import builtins, minisgl_lite.teaching.checks.serve as serve
serve.Server.answer = lambda self, request: {"value": None, "args": request.get("args", [])}
def page_slots(*args): return None
""",
    "sends-a-verdict": """import json, os, socket
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["MINISGL_LITE_JUDGE"])
s.sendall(json.dumps({"verdict": {"name": "page-slots", "status": "done"}}).encode() + b"\\n")
def page_slots(*args): return None
""",
    "looks-for-the-solution": """import glob
for pattern in ("/**/solutions/*.ipynb", "/**/gradebook.db", "/**/page_slots.py"):
    found = glob.glob(pattern, recursive=True)
    assert not found, found
def page_slots(*args): return None
""",
}


class Case(NamedTuple):
    """What is handed in, and the row's status, score and a word of its flags or reason."""

    files: dict[str, bytes]
    status: str
    score: float | None
    words: str = ""


def handed_out() -> Any:
    return nbformat.read(ROOT / "exercises" / f"{NAME}.ipynb", as_version=4)


def answered(
    change: Callable[[Any, dict[str, Any]], None] | None = None, answer: str = RIGHT
) -> bytes:
    """The notebook with `answer` to page-slots, and then `change`d."""
    notebook = copy.deepcopy(handed_out())
    cells = {cell.id: cell for cell in notebook.cells}
    cells["page-slots-answer"].source = answer
    if change is not None:
        change(notebook, cells)
    return json.dumps(notebook).encode()


def file(content: bytes, name: str = f"{NAME}.ipynb") -> dict[str, bytes]:
    return {name: content}


def points() -> float:
    """What page-slots is worth: only that is answered here."""
    return float(load_exercises()["page-slots"].points)


def _tampered(notebook: Any, cells: dict[str, Any]) -> None:
    cells["page-slots-check"].metadata.nbgrader["points"] = 400
    cells["page-slots-check"].source = "print('done: page-slots')"


def _stripped(notebook: Any, cells: dict[str, Any]) -> None:
    for cell in notebook.cells:
        cell.metadata = {}


def _loops(notebook: Any, cells: dict[str, Any]) -> None:
    cells["set-up"].source += "\nwhile True:\n    pass"


def _dies(notebook: Any, cells: dict[str, Any]) -> None:
    cells["page-slots-answer"].source += "\nimport os\nos._exit(3)"


def few() -> dict[str, Case]:
    """Those that the gate grades."""
    full = points()
    return {
        "right": Case(file(answered()), "graded", full),
        "stub": Case(file(json.dumps(handed_out()).encode()), "graded", 0),
        'José "=1", Núñez': Case(file(answered(_stripped)), "graded", full),
        "tampered": Case(file(answered(_tampered)), "graded", full, "points were changed to 400"),
        "prints": Case(file(answered(answer=CHEATS["prints-the-line"])), "graded", 0),
        "counterpart": Case(file(answered(answer=CHEATS["uses-the-counterpart"])), "graded", 0),
        "empty": Case(file(b""), "error", None, "it is empty"),
        "nothing": Case({}, "error", None, "is there"),
    }


def many() -> dict[str, Case]:
    """Those that take longer, too."""
    full = points()
    cases = {
        name: Case(file(answered(answer=source)), "graded", 0) for name, source in CHEATS.items()
    }
    cases |= {
        "loops": Case(file(answered(_loops)), "graded", full),
        "dies": Case(file(answered(_dies)), "error", None),
        "renamed": Case(file(answered(), "my work.ipynb"), "graded", full, "was taken for"),
        "bom": Case(file(b"\xef\xbb\xbf" + answered()), "graded", full),
        "no-json": Case(file(b"{"), "error", None, "it is no notebook"),
    }
    return few() | cases


def write(folder: Path, cases: dict[str, Case]) -> None:
    for student, case in cases.items():
        (folder / student).mkdir(parents=True)
        for name, content in case.files.items():
            (folder / student / name).write_bytes(content)


__all__ = ["Case", "few", "many", "write"]
