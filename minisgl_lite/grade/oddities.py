"""What an answer to these exercises has no use for, found by reading it: a person should look.

None of it earns a point, because verdicts are reached elsewhere. An honest answer may be flagged,
and a clever one may not be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

ODD: dict[str, re.Pattern[str]] = {
    "names the judge's socket": re.compile(r"MINISGL_LITE_\w+"),
    "reaches into the checks": re.compile(r"minisgl_lite\.(teaching|grade)|\bchecks?\.\w+ *="),
    "defines check anew": re.compile(r"^[ \t]*(def +check\b|check *=)", re.MULTILINE),
    "writes a verdict's line": re.compile(r"""["'](done|wrong): """),
    "changes the notebook's shell": re.compile(r"\bget_ipython\b|\binput_transformers|IPython"),
    "changes how Python imports or reports": re.compile(
        r"\bsys\.(meta_path|path_hooks|modules|excepthook|settrace|setprofile)\b|\b__import__\b"
    ),
    "runs something at exit": re.compile(r"\batexit\b"),
    "changes builtins or modules": re.compile(r"\bbuiltins\b|\bsetattr\("),
    "compares in a way of its own": re.compile(r"def +__(eq|ne|getattr|getattribute|bool)__\b"),
    "ends, forks or signals processes": re.compile(
        r"\bos\.(_exit|abort|fork|kill|exec\w*|system|popen)\b|\bimport +.*\b(signal|subprocess)\b"
    ),
    "opens a socket or threads": re.compile(r"\bimport +.*\b(socket|threading|ctypes|asyncio)\b"),
    "looks for files": re.compile(r"\bglob\b|\bos\.(walk|listdir|scandir)\b|gradebook|/solutions"),
}

LINE, LOOKED_AT = 500, 100_000
"""Characters of a line, and of a notebook's cells together, that are looked at: a search takes the
square of a line's length where somebody writes it so."""


def oddities(notebook: Any, released: Any) -> Iterator[str]:
    """A flag for each cell and kind. Lines that were handed out, and cells that are put back, are
    not looked at."""
    handed_out = {line for cell in released.cells for line in cell.source.split("\n")}
    left = LOOKED_AT
    for cell in notebook.cells:
        if cell.cell_type != "code" or cell.metadata.get("nbgrader", {}).get("locked"):
            continue
        lines = [line[:LINE] for line in cell.source.split("\n") if line not in handed_out]
        own = "\n".join(lines)[:left]
        left -= len(own)
        for what, pattern in ODD.items():
            if pattern.search(own):
                yield f"cell {cell.id} {what}"
    if left <= 0:
        yield f"it has more than {LOOKED_AT} characters of its own code; the rest was not looked at"


__all__ = ["oddities"]
