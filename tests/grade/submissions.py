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
OTHER_WAYS = {
    "right-with-tensors": """import torch
def page_slots(starts, page_size, count):
    pages = torch.tensor(starts, dtype=torch.int32).reshape(-1, 1)
    return (pages + torch.arange(page_size, dtype=torch.int32)).flatten()[:count].contiguous()
""",
    "right-page-by-page": """import torch
def page_slots(starts, page_size, count):
    slots = []
    for start in starts:
        slots += range(start, start + page_size)
    return torch.tensor(slots[:count], dtype=torch.int32)
""",
    "right-and-noisy": """import sys, warnings, torch
warnings.warn("a warning is no failure")
print("nor is this", file=sys.stderr)
def page_slots(starts, page_size, count):
    print("called")
    sys.stderr.write("called\\n")
    return torch.tensor([starts[t // page_size] + t % page_size for t in range(count)],
                        dtype=torch.int32)
""",
}
WRONG = {
    "wrong-starts-are-numbers": """import torch
def page_slots(starts, page_size, count):
    return torch.tensor([starts[t // page_size] * page_size + t % page_size
                         for t in range(count)], dtype=torch.int32)
""",
    "wrong-one-run": """import torch
def page_slots(starts, page_size, count):
    return torch.arange(starts[0], starts[0] + count, dtype=torch.int32)
""",
    "wrong-kind": """def page_slots(starts, page_size, count):
    return [starts[t // page_size] + t % page_size for t in range(count)]
""",
    "wrong-raises": """def page_slots(starts, page_size, count):
    raise RuntimeError("<b>no</b>")
""",
    "wrong-syntax": "def page_slots(starts, page_size, count)\n    return\n",
    "wrong-never-returns": """def page_slots(starts, page_size, count):
    while True:
        pass
""",
}
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
    "transforms-its-input": """
get_ipython().input_transformers_cleanup.append(
    lambda lines: ["print('done: page-slots')\\n"] if "check" in "".join(lines) else lines)
""",
    "hooks-the-kernel": """
shell = get_ipython()
shell.run_cell = lambda *args, **kwargs: None
shell.events.register("post_run_cell", lambda *args: print("done: page-slots"))
""",
    "hooks-the-import": """import sys
class Finder:
    def find_spec(self, name, path=None, target=None): print("done:", name)
sys.meta_path.insert(0, Finder())
def page_slots(*args): return None
""",
    "leaves-an-exit-handler": """import atexit
atexit.register(print, "done: page-slots")
def page_slots(*args): return None
""",
    "changes-the-package": """import minisgl_lite.scheduler as scheduler, minisgl_lite.core as core
for module in (scheduler, core):
    for name in dir(module):
        if name[0] != "_":
            setattr(module, name, None)
def page_slots(*args): return None
""",
    "hides-its-errors": """import sys
sys.excepthook = lambda *args: None
get_ipython().set_custom_exc((BaseException,), lambda *args, **kwargs: None)
def page_slots(*args): raise SystemExit(0)
""",
    "never-stops-asking": """import threading, os, socket
def ask():
    while True:
        s = socket.socket(socket.AF_UNIX); s.connect(os.environ["MINISGL_LITE_JUDGE"])
        s.sendall(b'{"check": "page-slots"}\\n'); s.sendall(b"[" * 100000 + b"\\n"); s.close()
for _ in range(2):
    threading.Thread(target=ask, daemon=True).start()
def page_slots(*args): return None
""",
}
FLAGS = {
    "prints-the-line": "writes a verdict's line",
    "uses-the-counterpart": "",
    "equals-everything": "compares in a way of its own",
    "patches-asserts": "reaches into the checks",
    "sends-a-verdict": "names the judge's socket",
    "looks-for-the-solution": "looks for files",
    "transforms-its-input": "changes the notebook's shell",
    "hooks-the-kernel": "changes the notebook's shell",
    "hooks-the-import": "changes how Python imports",
    "leaves-an-exit-handler": "runs something at exit",
    "changes-the-package": "changes builtins or modules",
    "hides-its-errors": "changes how Python imports or reports",
    "never-stops-asking": "opens a socket or threads",
}
"""What the cell's flag says of each."""
SPOILT: dict[str, tuple[str, float | None]] = {
    "patches-asserts": ("partial", None),
    "hooks-the-kernel": ("timeout", None),
    "never-stops-asking": ("partial", None),
}
"""Those that break their own judging: nothing is earned, and some of it isn't known."""

BOMBS = {
    "memory": "x = bytearray(1 << 40)",
    "memory-slowly": "x = []\nwhile True:\n    x.append(b'x' * 10 ** 8)",
    "output": "while True:\n    print('x' * 10000)",
    "output-then-on": "for _ in range(3000):\n    print('x' * 10000)",
    "disk": """import os
for folder in ("/tmp", "/dev/shm", os.path.dirname(os.environ["MINISGL_LITE_JUDGE"])):
    try:
        for number in range(200):
            with open(f"{folder}/{number}", "wb") as file:
                file.write(bytes(32 << 20))
    except OSError as error:
        print(folder, error)
""",
    "forks": """import os, time
try:
    while True:
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
except OSError as error:
    print(error)
""",
    "interrupts-caught": """while True:
    try:
        while True:
            pass
    except BaseException:
        pass
""",
    "signals-ignored": """import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    pass
""",
    "stops-itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "exits": "raise SystemExit",
    "quits": "exit()",
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


def _outputs_by_hand(notebook: Any, cells: dict[str, Any]) -> None:
    for name in ("page-slots", "kv-budget", "pool-views"):
        cell = cells[f"{name}-check"]
        cell.execution_count = 1
        cell.outputs = [nbformat.v4.new_output("stream", text=f"done: {name}\n")]


def _another_id(notebook: Any, cells: dict[str, Any]) -> None:
    """The check of what is right stands, by its marks, for what is worth more."""
    cells["page-slots-check"].metadata.nbgrader["grade_id"] = "pool-views-check"
    cells["pool-views-check"].metadata.nbgrader["grade_id"] = "page-slots-check"


def _twice(notebook: Any, cells: dict[str, Any]) -> None:
    notebook.cells.append(copy.deepcopy(cells["page-slots-check"]))


def _without_check(notebook: Any, cells: dict[str, Any]) -> None:
    notebook.cells.remove(cells["page-slots-check"])


def _odd_cell(notebook: Any, cells: dict[str, Any]) -> None:
    cell = nbformat.v4.new_code_cell("1 / 0")
    cell.metadata = {"nbgrader": {"grade_id": "x[1]", "grade": True, "points": 99, "locked": 0}}
    notebook.cells.insert(2, cell)


def _julia(notebook: Any, cells: dict[str, Any]) -> None:
    notebook.metadata.kernelspec = {
        "name": "julia-1.9",
        "display_name": "Julia",
        "language": "julia",
    }


def in_cell(cell_id: str, code: str) -> bytes:
    """The right answer, and `code` at the end of a cell."""

    def change(notebook: Any, cells: dict[str, Any]) -> None:
        cells[cell_id].source += f"\n{code}"

    return answered(change)


def _old_format() -> bytes:
    notebook = nbformat.from_dict(json.loads(answered()))
    return str(nbformat.writes(notebook, version=3)).encode()


def few() -> dict[str, Case]:
    """Those that the gate grades."""
    full = points()
    return {
        "right": Case(file(answered()), "graded", full),
        "stub": Case(file(json.dumps(handed_out()).encode()), "graded", 0),
        'José "=1", Núñez': Case(file(answered(_stripped)), "graded", full),
        "tampered": Case(file(answered(_tampered)), "graded", full, "points were changed to 400"),
        "prints": Case(file(answered(answer=CHEATS["prints-the-line"])), "graded", 0),
        "dies": Case(
            file(in_cell("kv-budget-answer", "import os\nos._exit(3)")),
            "partial",
            full,
            "the kernel died in cell kv-budget-answer",
        ),
        "empty": Case(file(b""), "error", None, "it is empty"),
        "nothing": Case({}, "error", None, "is there"),
    }


def cheats() -> dict[str, Case]:
    """No trick earns a point."""
    cases = {}
    for name, source in CHEATS.items():
        flag = f"cell page-slots-answer {FLAGS[name]}" if FLAGS[name] else ""
        status, score = SPOILT.get(name, ("graded", 0))
        cases[name] = Case(file(answered(answer=source)), status, score, flag)
    full = points()
    return cases | {
        "outputs-by-hand": Case(file(answered(_outputs_by_hand)), "graded", full),
        "another-id": Case(
            file(answered(_another_id)), "graded", full, "pool-views-check: the locked text"
        ),
    }


def bombs() -> dict[str, Case]:
    """What ends a kernel, or tries to; the answer above it is right and keeps its points."""
    full = points()
    rows = {
        "interrupts-caught": ("partial", full, "could not be stopped"),
        "signals-ignored": ("partial", full, "could not be stopped"),
        "stops-itself": ("partial", full, "could not be stopped"),
        "quits": ("partial", full, "the kernel died in cell"),
        "output": ("graded", full, "the rest was dropped"),
        "output-then-on": ("graded", full, "the rest was dropped"),
    }
    cases = {
        f"bomb-{name}": Case(
            file(in_cell("kv-budget-answer", code)),
            *rows.get(name, ("graded", full, "")),
        )
        for name, code in BOMBS.items()
    }
    return cases | {
        "loops": Case(file(answered(_loops)), "graded", full),
        "dies-before-its-check": Case(
            file(in_cell("page-slots-answer", "import os\nos._exit(3)")),
            "partial",
            None,
            "the kernel died in cell page-slots-answer",
        ),
        "dies-when-called": Case(
            file(answered(answer="import os\ndef page_slots(*args): os._exit(1)\n")),
            "partial",
            None,
            "the kernel died in cell page-slots-check",
        ),
    }


def files() -> dict[str, Case]:
    """What learning platforms, editors and people do to files."""
    full = points()
    return {
        "renamed": Case(file(answered(), "my work.ipynb"), "graded", full, "was taken for"),
        "one-more": Case(
            file(answered()) | file(b"{}", "x.ipynb"), "graded", full, "not part of the assignment"
        ),
        "bom": Case(file(b"\xef\xbb\xbf" + answered()), "graded", full),
        "crlf": Case(file(answered().replace(b"\\n", b"\\r\\n")), "graded", full),
        "old-format": Case(file(_old_format()), "graded", full),
        "no-json": Case(file(b"{"), "error", None, "it is no notebook"),
        "a-list": Case(file(b"[]"), "error", None, "it is no notebook"),
        "nested": Case(file(b"[" * 100_000), "error", None, "nested too deeply"),
        "huge": Case(file(b" " * (20 * 2**20 + 1)), "error", None, "more than 20 MB"),
        "twice": Case(file(answered(_twice)), "graded", full, "is there twice"),
        "without-check": Case(file(answered(_without_check)), "graded", full, "is missing"),
        "odd-cell": Case(file(answered(_odd_cell)), "graded", full),
        "julia": Case(file(answered(_julia)), "graded", full, "another kernel: julia"),
        "x" * 200: Case(file(answered()), "graded", full),
        "学生, [1]": Case(file(answered()), "graded", full),
        "=HYPERLINK(1)": Case(file(answered()), "graded", full),
        "طالب": Case(file(answered()), "graded", full),
    }


def many() -> dict[str, Case]:
    """All of them, those that take longer, too."""
    full = points()
    right = {name: Case(file(answered(answer=s)), "graded", full) for name, s in OTHER_WAYS.items()}
    wrong = {name: Case(file(answered(answer=s)), "graded", 0) for name, s in WRONG.items()}
    return few() | right | wrong | cheats() | bombs() | files()


def write(folder: Path, cases: dict[str, Case]) -> None:
    for student, case in cases.items():
        (folder / student).mkdir(parents=True)
        for name, content in case.files.items():
            (folder / student / name).write_bytes(content)


__all__ = ["Case", "bombs", "cheats", "few", "files", "many", "write"]
