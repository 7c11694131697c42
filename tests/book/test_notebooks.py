"""Notebooks as committed: clean, valid, and users of the public API alone.

The public API is `minisgl_lite.__all__`, the `__all__` of a submodule, and the names that mirror
mini-sglang's (book/_data/mini_sglang.json).
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))
PACKAGE = "minisgl_lite"
# A path from the root of somebody's machine, in whatever the notebook holds.
ABSOLUTE_PATH = re.compile(r"(?:/(?:home|root|work|tmp|Users|opt|mnt)/\w|\b[A-Za-z]:\\\\\w)")
CHECKED_OUTPUT = "NBVAL_CHECK_OUTPUT"


@cache
def mirrored() -> dict[str, dict[str, list[str]]]:
    """module -> class or function -> members, as in mini-sglang."""
    text = (ROOT / "book" / "_data" / "mini_sglang.json").read_text(encoding="utf-8")
    modules: dict[str, dict[str, list[str]]] = json.loads(text)["modules"]
    return modules


def is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def is_public(module: str, name: str) -> bool:
    """Whether a notebook may say `from module import name`."""
    if name.startswith("_"):
        return False
    if is_module(f"{module}.{name}"):
        return True
    if name in getattr(importlib.import_module(module), "__all__", ()):
        return True
    inside = module.removeprefix(PACKAGE).removeprefix(".")
    return any(
        name in names
        for path, names in mirrored().items()
        if path == inside or path.startswith(f"{inside}.")
    )


def private_members() -> set[str]:
    """Underscored members that mini-sglang has, too; its readers know them."""
    members = {m for names in mirrored().values() for group in names.values() for m in group}
    return {member for member in members if member.startswith("_")}


def source_of(cells: list[Any]) -> str:
    """The code cells as one Python text, IPython's own lines left out."""
    lines = [line for c in cells if c.cell_type == "code" for line in c.source.splitlines()]
    return "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!")))


def api_faults(source: str) -> list[str]:
    """What the code uses beyond the public API."""
    faults = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            assert node.module is not None
            faults += [
                f"from {node.module} import {alias.name}"
                for alias in node.names
                if not is_public(node.module, alias.name)
            ]
        elif isinstance(node, ast.Import):
            faults += [
                f"import {alias.name}"
                for alias in node.names
                if alias.name.split(".")[0] == PACKAGE and "._" in alias.name
            ]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            dunder = node.attr.startswith("__") and node.attr.endswith("__")
            own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            if not (dunder or own or node.attr in private_members()):
                faults.append(f".{node.attr}")
    return faults


def is_compared(cell: Any) -> bool:
    """Whether a run of the cell must say what is stored with it."""
    tagged = "nbval-check-output" in cell.metadata.get("tags", [])
    return tagged or CHECKED_OUTPUT in cell.source


def cleanliness_faults(notebook: Any) -> list[str]:
    """What a committed notebook must not hold."""
    faults = []
    if "widgets" in notebook.metadata:
        faults.append("widget state")
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        compared = is_compared(cell)
        # 0 stands with a stored output: nbval takes a cell without a count for one that never ran.
        if cell.execution_count not in ((0,) if cell.outputs else (None,)):
            faults.append(f"cell {cell.id}: an execution count")
        if cell.outputs and not compared:
            faults.append(f"cell {cell.id}: outputs that nobody compares")
        for output in cell.outputs:
            kinds = [kind for kind in output.get("data", {}) if not kind.startswith("text/")]
            faults += [f"cell {cell.id}: {kind}" for kind in kinds]
    path = ABSOLUTE_PATH.search(json.dumps(notebook))
    if path:
        faults.append(f"an absolute path: {path.group()}")
    return faults


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_valid_and_clean(path: Path) -> None:
    nbformat.validate(json.loads(path.read_text(encoding="utf-8")))
    assert cleanliness_faults(read(path)) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_uses_the_public_api_alone(path: Path) -> None:
    assert api_faults(source_of(read(path).cells)) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_code_cells_are_short(path: Path) -> None:
    for cell in read(path).cells:
        if cell.cell_type == "code":
            assert len(cell.source.splitlines()) <= 25, cell.id


def test_public_api_admits_mirrored_names_and_refuses_others() -> None:
    allowed = """
from minisgl_lite import LLM, SamplingParams, kvcache
from minisgl_lite.scheduler.cache import CacheManager
import minisgl_lite.core
manager._page_to_token(pages)
class Mine(Base):
    def f(self):
        return self._own
"""
    assert api_faults(allowed) == []
    refused = """
from minisgl_lite import _secret
from minisgl_lite.core import nothing_of_the_kind
import minisgl_lite.engine._hidden
llm._made_up
"""
    assert api_faults(refused) == [
        "from minisgl_lite import _secret",
        "from minisgl_lite.core import nothing_of_the_kind",
        "import minisgl_lite.engine._hidden",
        "._made_up",
    ]


def test_unclean_notebook_is_found() -> None:
    notebook = nbformat.v4.new_notebook(metadata={"widgets": {}})
    picture = nbformat.v4.new_output("display_data", data={"image/png": "aGk="})
    notebook.cells = [
        nbformat.v4.new_code_cell("show()", id="a", execution_count=3, outputs=[picture]),
        nbformat.v4.new_code_cell("open('/home/me/x')", id="b"),
        nbformat.v4.new_code_cell(f"# {CHECKED_OUTPUT}\nprint(1)", id="c", execution_count=0),
    ]
    notebook.cells[2].outputs = [nbformat.v4.new_output("stream", text="1\n")]
    assert cleanliness_faults(notebook) == [
        "widget state",
        "cell a: an execution count",
        "cell a: outputs that nobody compares",
        "cell a: image/png",
        "an absolute path: /home/m",
    ]
