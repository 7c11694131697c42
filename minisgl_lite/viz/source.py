"""The package's own code, shown in a page from its source, never pasted."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..utils import require

_ROOT = Path(__file__).parent.parent


def source(obj: type | Callable[..., Any] | Path) -> Any:
    """The source of a function, method or class, highlighted, with the file and line it stands in.

    A ``Path`` is shown as the Python file that it names, whole.

    Returns an ``IPython.display.Markdown``; as a cell's last expression it is shown.

    Raises:
        ImportError: IPython is not there (extra ``book``).
        TypeError: ``obj`` has no Python source.
    """
    if isinstance(obj, Path):
        return _markdown(obj.read_text(encoding="utf-8"), _where(obj))
    inner: Any = inspect.unwrap(obj)
    lines, first = inspect.getsourcelines(inner)
    where = _where(Path(inspect.getsourcefile(inner) or ""))
    return _markdown(textwrap.dedent("".join(lines)), f"{where}, line {first}")


def _where(path: Path) -> str:
    path = path.resolve()
    return f"`{path.relative_to(_ROOT.parent) if path.is_relative_to(_ROOT) else path.name}`"


def _markdown(code: str, where: str) -> Any:
    display = require("IPython.display", extra="book")
    return display.Markdown(f"```python\n{code.rstrip()}\n```\n\n{where}")
