"""Words that readers see, by key, in one catalogue, so that a translation is one file.

Names of mini-sglang stay as they are.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

CATALOGUE: dict[str, str] = json.loads(
    (Path(__file__).parent / "en.json").read_text(encoding="utf-8")
)


def say(key: str, **values: object) -> str:
    """The text of ``key`` with its ``{names}`` filled in.

    Raises KeyError for an unknown key or a missing value.
    """
    return re.sub(r"\{(\w+)\}", lambda name: str(values[name[1]]), CATALOGUE[key])


__all__ = ["CATALOGUE", "say"]
