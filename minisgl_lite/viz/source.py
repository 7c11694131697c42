"""The package's own code, shown in a page from its source, never pasted."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..utils import require

_ROOT = Path(__file__).parent.parent


def source(obj: type | Callable[..., Any]) -> Any:
    """The source of a function, method or class, highlighted, with the file and line it stands in.

    Returns an ``IPython.display.Markdown``; as a cell's last expression it is shown.

    Raises:
        ImportError: IPython is not there (extra ``book``).
        TypeError: ``obj`` has no Python source.
    """
    obj = inspect.unwrap(obj)
    lines, first = inspect.getsourcelines(obj)
    path = Path(inspect.getsourcefile(obj) or "").resolve()
    where = path.relative_to(_ROOT.parent) if path.is_relative_to(_ROOT) else path.name
    code = textwrap.dedent("".join(lines)).rstrip()
    display = require("IPython.display", extra="book")
    return display.Markdown(f"```python\n{code}\n```\n\n`{where}`, line {first}")
