"""The grader's own folders, taken out of what a student may read."""

from __future__ import annotations

import functools
import re
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]


def without_places(text: str) -> str:
    """``text`` in which paths begin where the grader's folders end: "…/lib/python3.11/abc.py".

    An import that fails names a file, and a traceback names many.
    """
    return _places().sub("…", text)


@functools.cache
def _places() -> re.Pattern[str]:
    folders = {sys.prefix, sys.base_prefix, str(PACKAGE), tempfile.gettempdir(), str(Path.home())}
    folders |= {str(Path(folder).resolve()) for folder in folders}
    # "/usr" and "/tmp" are everybody's.
    own = sorted((f for f in folders if f.count("/") > 1), key=len, reverse=True)
    return re.compile("|".join(rf"{re.escape(folder)}(?![\w.-])" for folder in own) or r"(?!)")
