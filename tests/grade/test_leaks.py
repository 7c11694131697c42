"""What students get back tells nothing that is not theirs: a real run over wrong answers.

Looked at are the feedback pages, which students get, and the tracebacks in the executed notebooks,
which they would get from nbgrader's own feedback.
"""

from __future__ import annotations

import html
import json
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from minisgl_lite.cli import main
from minisgl_lite.grade import judging, sandbox
from minisgl_lite.grade.gradebook import feedback_html
from minisgl_lite.grade.job import Cell, Result, hidden_seeds
from minisgl_lite.grade.run import Row
from minisgl_lite.teaching.checks import EXERCISES, load_exercises
from minisgl_lite.teaching.checks.learner import Learner, Link
from minisgl_lite.teaching.checks.serve import Server
from minisgl_lite.teaching.release import release, secret_numbers

from .submissions import NAME, RIGHT, ROOT, WRONG

SECRET = b"a secret of this test alone"
EXPLAIN, PREDICT = "kv-buffer-axes", "predict-expansion"
KEPT = {f"{name}-{part}" for name in (EXPLAIN, PREDICT, "page-slots") for part in
        ("text", "answer", "check")} | {"set-up"}  # fmt: skip

pytestmark = [
    pytest.mark.grading,
    pytest.mark.skipif(bool(sandbox.missing()), reason="no sandbox here"),
]


class _Noted(Link):
    """A learner's side in this process; notes the arguments of every call."""

    printed = False

    def __init__(self) -> None:
        namespace: dict[str, Any] = {}
        exec(RIGHT, namespace)
        self.server, self.seen = Server(namespace), list[str]()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = self.server.answer(json.loads(json.dumps(request)))
        self.seen.append(json.dumps(request["args"][0]))
        return json.loads(json.dumps(answer))


def asked_with(seed: int) -> set[str]:
    """The first arguments of all calls of page_slots with that stream."""
    exercise, link = EXERCISES["page-slots"], _Noted()
    assert exercise.check is not None
    exercise.check(Learner(link, exercise.answer), random.Random(seed))
    return set(link.seen)


def solutions(folder: Path) -> Path:
    notebook = nbformat.read(ROOT / "solutions" / f"{NAME}.ipynb", as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.id in KEPT]
    (folder / "solutions").mkdir()
    nbformat.write(notebook, folder / "solutions" / f"{NAME}.ipynb")
    return folder / "solutions"


def stem(text: str) -> str:
    return f"""def page_slots(starts, page_size, count):
    import os, sys, torch
    {text}
    return torch.tensor([starts[t // page_size] + t % page_size for t in range(count)],
                        dtype=torch.int32)
"""


def answers(public: set[str]) -> dict[str, str]:
    known = f"{sorted(public)!r}"
    return {
        "Zofia Kowalczyk": WRONG["wrong-one-run"],
        "Bartholomew Nwosu": stem(
            f'if str(list(starts)) not in {known}: raise RuntimeError(f"asked with {{starts}}")'
        ),
        "Yusra Haddadin": stem("from minisgl_lite.scheduler import take_the_slots"),
        "Ottoline Vance": stem(
            "raise RuntimeError(' '.join([torch.__file__, os.getcwd(), *sys.path, *os.environ]))"
        ),
        "Tancredi Moro": "import torch\ntorch.zeros(2).reshape(3)\nraise RuntimeError",
        "Ingeborg Aas": "from torch.nn.functional import softmax\nsoftmax('x', 0)\n",
    }


def lines_of(text: str) -> set[str]:
    """Those long enough to be told from anybody's."""
    return {line.strip() for line in text.splitlines() if len(line.strip()) > 25}


def withheld(folder: Path) -> dict[str, set[str]]:
    """What nobody may read, by what it is."""
    notebook = nbformat.read(folder / f"{NAME}.ipynb", as_version=4)
    cells = {cell.id: cell.source for cell in notebook.cells}
    template = EXERCISES[PREDICT].template
    assert template is not None
    token = secret_numbers(SECRET)(PREDICT)
    right = template.solve(template.task(token))
    seed = hidden_seeds(SECRET)("page-slots")[1]
    guide = cells[f"{EXPLAIN}-answer"].split("### BEGIN MARK SCHEME")
    code = cells["page-slots-answer"].split("### BEGIN SOLUTION")[1]
    return {
        "secret": {SECRET.decode(), SECRET.hex()},
        "hidden test": {str(seed)} | {text for text in asked_with(seed) if text.count(",") > 1},
        "solution": lines_of(code) | lines_of(guide[0]) | {str(right["slots"])},
        "marking guide": lines_of(guide[1]),
        "path": {sys.prefix, sys.base_prefix, str(ROOT), tempfile.gettempdir() + "/", "/home"},
    }


def leaks(text: str, secrets: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    plain = re.sub(r"\s+", " ", text)
    for kind, parts in secrets.items():
        yield from ((kind, part) for part in parts if part in text or part in plain)


def told(texts: dict[str, str], hidden: dict[str, set[str]]) -> dict[str, list[tuple[str, str]]]:
    """By student, what their text has of all that is hidden from them, other names included."""
    found = {
        student: list(leaks(text, hidden | {"another student": set(texts) - {student}}))
        for student, text in texts.items()
    }
    return {student: parts for student, parts in found.items() if parts}


def strings(value: Any) -> Iterator[str]:
    """All text in JSON."""
    if isinstance(value, str):
        yield re.sub(r"\x1b\[[\d;]*m", "", value)
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def outputs(path: Path) -> str:
    """All that an executed notebook shows below its cells."""
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(strings([cell.get("outputs", []) for cell in cells]))


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, set[str]]]:
    """The results of a class with a secret, and what must not be in them."""
    load_exercises()
    folder = tmp_path_factory.mktemp("leaks")
    (folder / "secret").write_bytes(SECRET)
    source = solutions(folder)
    release(source, folder / "exercises", numbers=secret_numbers(SECRET))
    public = asked_with(0)
    for student, answer in answers(public).items():
        notebook = nbformat.read(folder / "exercises" / f"{NAME}.ipynb", as_version=4)
        cells = {cell.id: cell for cell in notebook.cells}
        cells["page-slots-answer"].source = answer
        cells[f"{PREDICT}-answer"].source = 'expansion = {"page": 0, "slots": [1, 2]}'
        (folder / "in" / student).mkdir(parents=True)
        nbformat.write(notebook, folder / "in" / student / f"{NAME}.ipynb")
    arguments = [str(folder / "in"), "--assignment", NAME, "--out", str(folder / "out")]
    arguments += ["--secret", str(folder / "secret"), "--solutions", str(source)]
    assert main(["grade", *arguments]) == 0
    hidden = withheld(source)
    hidden["hidden test"] -= public
    return folder / "out", hidden


def pages(out: Path) -> dict[str, str]:
    """Each student's feedback page."""
    found = {}
    for path in (out / "feedback").iterdir():
        text = path.read_text(encoding="utf-8")
        name = re.search(r"<h1>Feedback for (.*)</h1>", text)
        assert name is not None
        found[html.unescape(name[1])] = html.unescape(text)
    return found


def test_feedback_tells_nothing_that_is_not_the_students(
    graded: tuple[Path, dict[str, set[str]]],
) -> None:
    out, hidden = graded
    assert all(hidden.values())
    found = pages(out)
    assert len(found) == 6
    assert told(found, hidden) == {}
    assert not any("Traceback" in text for text in found.values())
    assert judging.HIDDEN["error"][:30] in found["Bartholomew Nwosu"] or (
        judging.HIDDEN["wrong"][:30] in found["Bartholomew Nwosu"]
    )


def test_tracebacks_in_the_executed_notebooks_show_no_machine(
    graded: tuple[Path, dict[str, set[str]]],
) -> None:
    out, hidden = graded
    executed = sorted((out / "autograded").rglob("*.ipynb"))
    assert len(executed) == 6
    shown = {path.parts[-3]: outputs(path) for path in executed}
    assert any("reshape" in text or "shape" in text for text in shown.values())
    assert told(shown, hidden) == {}


def test_each_of_them_would_be_seen_on_a_page(graded: tuple[Path, dict[str, set[str]]]) -> None:
    for kind, parts in graded[1].items():
        for part in parts:
            cells = {"page-slots-check": Cell("page-slots", 0.0, 4.0, f"wrong: {part}. Read on")}
            page = feedback_html(Row("ada", Result("graded", cells)))
            assert (kind, part) in leaks(html.unescape(page), graded[1])
