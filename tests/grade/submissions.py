"""Submissions for one notebook, honest and hostile, each with the row that it must get."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import nbformat

from minisgl_lite.teaching.checks import load_exercises
from minisgl_lite.teaching.release import release

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
    "sends-endless-lines": """import json, os, socket
def sends(line):
    s = socket.socket(socket.AF_UNIX); s.connect(os.environ["MINISGL_LITE_JUDGE"])
    f = s.makefile("rwb")
    f.write(b'{"check": "page-slots"}\n'); f.flush(); f.readline(); f.readline()
    f.write(line); f.flush(); f.readline(); s.close()
sends(json.dumps({"error": "signature", "text": "done: page-slots " * 10 ** 6}).encode() + b"\n")
sends(b'{"value": [' + b"{}," * 10 ** 7 + b"{}]}\n")
sends(b"x" * (40 << 20) + b"\n")
def page_slots(*args): return None
""",
    "asks-and-asks": """from minisgl_lite.teaching.checks.notebook import verdict_on
for guess in range(1000):
    verdict_on("predict-bytes", {"kv_bytes": guess})
def page_slots(*args): return None
""",
    "sends-pickles": """import os, pickle
class Bomb:
    def __reduce__(self): return os.system, ("touch /tmp/pwned",)
from minisgl_lite.teaching.checks import serve, wire
wire.pack = lambda value: {"pickle": pickle.dumps(Bomb()).hex()}
serve.pack = wire.pack
def page_slots(*args): return Bomb()
""",
    "speaks-for-the-kernel": """from ipykernel.kernelapp import IPKernelApp
import builtins
app = IPKernelApp.instance()
session, iopub = app.session, app.iopub_socket
parent = app.kernel.get_parent()
for kind, content in (
    ("execute_input", {"code": "x", "execution_count": "<script>1</script>"}),
    ("display_data", {"data": {"text/html": "<script>", "image/png": '"><script>'},
                      "metadata": {}}),
    ("comm_open", {"comm_id": "x", "target_name": "jupyter.widget", "data": {}}),
    ("error", {"ename": 5, "evalue": None, "traceback": "done: page-slots"}),
):
    session.send(iopub, kind, content, parent=parent)
def page_slots(*args): return None
""",
    "swaps-its-sockets": """import os
folder = os.path.dirname(os.environ["MINISGL_LITE_JUDGE"])
for name in os.listdir(folder):
    path = os.path.join(folder, name)
    try:
        os.remove(path)
        os.symlink("/etc/passwd", path)
    except OSError as error:
        print(error)
for name in ("judge.sock", "kernel.json", "kernel.json-ipc-9"):
    try:
        os.symlink("/etc/shadow", os.path.join(folder, name))
    except OSError as error:
        print(error)
def page_slots(*args): return None
""",
    "looks-around": """import ctypes, os, subprocess
libc = ctypes.CDLL(None)
assert libc.ptrace(16, 1, 0, 0) == -1 and libc.unshare(0x10000000) == -1
for path in ("/proc/1/mem", "/proc/1/environ", "/proc/kmsg", "/etc/passwd", "/proc/self/mem/.."):
    try:
        open(path).read(1)
    except OSError:
        continue
    raise SystemError(path)
held = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}")]
assert not [name for name in held if name.startswith(("/tmp", "/work", "/home", "/root"))], held
assert not [name for name in os.environ if "SECRET" in name]
os.write(1, b"done: page-slots")
def page_slots(*args): return None
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
    "sends-endless-lines": "names the judge's socket",
    "asks-and-asks": "reaches into the checks",
    "sends-pickles": "reaches into the checks",
    "speaks-for-the-kernel": "",
    "swaps-its-sockets": "names the judge's socket",
    "looks-around": "writes a verdict's line",
    "never-stops-asking": "opens a socket or threads",
}
"""What the cell's flag says of each."""
SPOILT: dict[str, tuple[str, float | None]] = {
    "patches-asserts": ("partial", None),
    "hooks-the-kernel": ("timeout", None),
    "sends-pickles": ("partial", None),
    "speaks-for-the-kernel": ("partial", None),
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
    "many-files": """import os
try:
    for number in range(10 ** 6):
        open(f"/tmp/{number}", "w").close()
except OSError as error:
    print(error)
""",
    "mounts": """import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x10020000) != 0, "a namespace of its own"
""",
    "one-long-message": "import sys\nsys.stdout.write('x' * (200 << 20))\nsys.stdout.flush()",
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


def handed_out(folder: Path = ROOT) -> Any:
    return nbformat.read(folder / "exercises" / f"{NAME}.ipynb", as_version=4)


def short_course(folder: Path) -> Path:
    """`solutions/` and `exercises/` in which page-slots is the only exercise; returns `folder`."""
    notebook = nbformat.read(ROOT / "solutions" / f"{NAME}.ipynb", as_version=4)
    kept = {"set-up", "page-slots-text", "page-slots-answer", "page-slots-check"}
    notebook.cells = [cell for cell in notebook.cells if cell.id in kept]
    (folder / "solutions").mkdir()
    nbformat.write(notebook, folder / "solutions" / f"{NAME}.ipynb")
    release(folder / "solutions", folder / "exercises")
    return folder


def answered(
    change: Callable[[Any, dict[str, Any]], None] | None = None,
    answer: str = RIGHT,
    folder: Path = ROOT,
) -> bytes:
    """The notebook with `answer` to page-slots, and then `change`d."""
    notebook = handed_out(folder)
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


def small(folder: Path) -> dict[str, Case]:
    """The six that the gate grades, of a `short_course` in `folder`."""
    full = points()

    def by_hand(notebook: Any, cells: dict[str, Any]) -> None:
        cells["page-slots-check"].outputs = [nbformat.v4.new_output("stream", text=DONE)]
        cells["page-slots-check"].metadata.nbgrader["points"] = 400
        cells["page-slots-check"].source = "print('done: page-slots')"

    def dies(notebook: Any, cells: dict[str, Any]) -> None:
        cell = nbformat.v4.new_code_cell("import os\nos._exit(3)", id="mine")
        notebook.cells.append(cell)

    return {
        'José "=1", Núñez': Case(
            file(answered(by_hand, folder=folder)), "graded", full, "points were changed to 400"
        ),
        "prints": Case(
            file(answered(answer=CHEATS["prints-the-line"], folder=folder)), "graded", 0
        ),
        "dies": Case(
            file(answered(dies, folder=folder)), "graded", full, "the kernel died in cell mine"
        ),
        "empty": Case(file(b""), "error", None, "it is empty"),
        "nothing": Case({}, "error", None, "is there"),
        "no-json": Case(file(b"{"), "error", None, "it is no notebook"),
    }


DONE = "done: page-slots\n"


def six() -> dict[str, Case]:
    """A class of six, each of whom needs a job."""
    full = points()
    return few(full) | {
        "stub": Case(file(json.dumps(handed_out()).encode()), "graded", 0),
        "renamed": Case(file(answered(), "my work.ipynb"), "graded", full, "was taken for"),
    }


def few(full: float | None = None) -> dict[str, Case]:
    """Four that need a job."""
    full = points() if full is None else full
    return {
        "right": Case(file(answered()), "graded", full),
        'José "=1", Núñez': Case(file(answered(_stripped)), "graded", full),
        "prints": Case(file(answered(answer=CHEATS["prints-the-line"])), "graded", 0),
        "dies": Case(
            file(in_cell("kv-budget-answer", "import os\nos._exit(3)")),
            "partial",
            full,
            "the kernel died in cell kv-budget-answer",
        ),
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
        "outputs-by-hand": Case(
            file(answered(_outputs_by_hand)),
            "graded",
            full,
            '"done" stood below the check of kv-budget, and it is not',
        ),
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
        "tampered": Case(file(answered(_tampered)), "graded", full, "points were changed to 400"),
        "empty": Case(file(b""), "error", None, "it is empty"),
        "nothing": Case({}, "error", None, "is there"),
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
    return six() | right | wrong | cheats() | bombs() | files()


def write(folder: Path, cases: dict[str, Case]) -> None:
    for student, case in cases.items():
        (folder / student).mkdir(parents=True)
        for name, content in case.files.items():
            (folder / student / name).write_bytes(content)


__all__ = ["Case", "bombs", "cheats", "few", "files", "many", "six", "small", "write"]
