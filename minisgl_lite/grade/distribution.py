"""What a stranger's code may import: this package without any exercise's answer.

The sandbox sees this copy in place of the package. It holds no module of exercises (their checks
know the answers), nothing of the grader, and in place of each withheld counterpart a function that
says whose answer it would be.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterable
from pathlib import Path

import minisgl_lite

PACKAGE = Path(minisgl_lite.__file__).parent
LEFT_OUT = ("grade", "teaching/exercises", "teaching/release.py")
REFUSAL = (
    "from minisgl_lite.teaching.checks.withheld import CounterpartUsed",
    "raise CounterpartUsed({name!r})",
)


def write_distribution(target: Path, counterparts: Iterable[str]) -> None:
    """Copy the package to ``target/minisgl_lite`` without ``counterparts`` ("module:Class.method").

    Raises:
        ValueError: a counterpart that isn't a function in its module's text.
    """
    copy = target / "minisgl_lite"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for gone in (copy / name for name in LEFT_OUT):
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    (copy / "teaching" / "exercises").mkdir()
    (copy / "teaching" / "exercises" / "__init__.py").write_text('"""Not here."""\n')
    for counterpart in sorted(set(counterparts)):
        module, _, path = counterpart.partition(":")
        file = target / (module.replace(".", "/") + ".py")
        if not file.is_file():
            file = target / module.replace(".", "/") / "__init__.py"
        file.write_text(without(file.read_text(encoding="utf-8"), path), encoding="utf-8")


def without(source: str, path: str) -> str:
    """A module's text in which the function at ``path`` ("Class.method") refuses to be called.

    Raises:
        ValueError: there is no such function.
    """
    scope: ast.AST = ast.parse(source)
    for name in path.split("."):
        found = [node for node in getattr(scope, "body", ()) if getattr(node, "name", "") == name]
        if not found:
            raise ValueError(f"there is no {path} to take away.")
        scope = found[-1]
    if not isinstance(scope, ast.FunctionDef):
        raise ValueError(f"{path} is no function that could be taken away.")
    first, last = scope.body[0], scope.body[-1]
    assert last.end_lineno is not None
    lines = source.split("\n")
    indent = " " * first.col_offset
    refusal = [indent + line.format(name=path) for line in REFUSAL]
    return "\n".join([*lines[: first.lineno - 1], *refusal, *lines[last.end_lineno :]])
