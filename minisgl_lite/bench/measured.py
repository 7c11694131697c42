"""The figures that the book shows: one run of ``minisgl-lite bench``, kept beside this file.

Made anew by ``make bench``. Nothing else writes ``measured.json``.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from .timing import Measured


def measured() -> tuple[dict[str, Any], dict[str, Measured]]:
    """The machine that was measured, and each workload by its title and unit."""
    content = json.loads(files(__package__).joinpath("measured.json").read_text("utf-8"))
    found = [Measured(**one) for one in content["measured"]]
    return content["machine"], {f"{one.workload} [{one.unit}]": one for one in found}


__all__ = ["measured"]
