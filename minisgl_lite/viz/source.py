"""The package's own code, shown in a page from its source, never pasted."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..utils import require

_ROOT = Path(__file__).parent.parent


def source(obj: type | Callable[..., Any] | Path, name: str | None = None) -> Any:
    """The source of a function, method or class, highlighted, with the file and line it stands in.

    A ``Path`` is shown as the Python file that it names: whole, or its function or class ``name``
    alone. Nothing is imported for it.

    Returns an ``IPython.display.Markdown``; as a cell's last expression it is shown.

    Raises:
        ImportError: IPython is not there (extra ``book``).
        TypeError: ``obj`` has no Python source.
        ValueError: the file has no such function or class.
    """
    if isinstance(obj, Path):
        return _of_file(obj, name)
    inner: Any = inspect.unwrap(obj)
    lines, first = inspect.getsourcelines(inner)
    where = _where(Path(inspect.getsourcefile(inner) or ""))
    return _markdown(textwrap.dedent("".join(lines)), f"{where}, line {first}")


def _of_file(path: Path, name: str | None) -> Any:
    text = path.read_text(encoding="utf-8")
    if name is None:
        return _markdown(text, _where(path))
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
            lines = text.splitlines()[first - 1 : node.end_lineno]
            return _markdown("\n".join(lines), f"{_where(path)}, line {first}")
    raise ValueError(f"{path.name} has no function or class {name!r}.")


def _where(path: Path) -> str:
    path = path.resolve()
    return f"`{path.relative_to(_ROOT.parent) if path.is_relative_to(_ROOT) else path.name}`"


def _markdown(code: str, where: str) -> Any:
    display = require("IPython.display", extra="book")
    return display.Markdown(f"```python\n{code.rstrip()}\n```\n\n{where}")
