"""The book is written anew: no run of eight words in common with mini-sglang's own docs.

Code, names between backticks and tables of files are left out: those say the same by intent.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from minisgl_lite.teaching.clone import PATH_VARIABLE

pytestmark = pytest.mark.reference

ROOT = Path(__file__).resolve().parents[2]
RUN = 8
# A word between backticks breaks a run, as it breaks the sentence for who copies.
CODE = re.compile(r"```.*?```|`[^`\n]+`|^\|.*\|$|<[^>]+>|\]\([^)]*\)", re.DOTALL | re.MULTILINE)


def runs(text: str) -> set[tuple[str, ...]]:
    """Every run of eight words in prose."""
    found: set[tuple[str, ...]] = set()
    for part in CODE.sub("\0", text).split("\0"):
        words = re.findall(r"[a-z0-9]+(?:['’-][a-z0-9]+)*", part.lower())
        found |= {tuple(words[i : i + RUN]) for i in range(len(words) - RUN + 1)}
    return found


def our_prose() -> Iterator[tuple[str, str]]:
    for folder in ("book", "exercises", "solutions"):
        for path in sorted((ROOT / folder).glob("*.md")):
            yield f"{folder}/{path.name}", path.read_text(encoding="utf-8")
        for path in sorted((ROOT / folder).glob("*.ipynb")):
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            prose = ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
            yield f"{folder}/{path.name}", "\n\n".join(prose)
    yield "README.md", (ROOT / "README.md").read_text(encoding="utf-8")


def test_no_run_of_eight_words_is_mini_sglang_s() -> None:
    clone = os.environ.get(PATH_VARIABLE)
    if not clone:
        pytest.skip(f"{PATH_VARIABLE} is not set: no clone of mini-sglang to compare with")
    top = Path(clone).resolve().parent
    docs = [*sorted(top.glob("*.md")), *sorted((top / "docs").rglob("*.md"))]
    theirs = set().union(*(runs(path.read_text(encoding="utf-8")) for path in docs))
    assert len(theirs) > 500, "the clone's docs are not where they were"
    common = {
        f"{name}: {' '.join(run)}" for name, text in our_prose() for run in runs(text) & theirs
    }
    assert not common, "\n".join(sorted(common))


def test_a_copied_sentence_is_found() -> None:
    copied = "It gives each request a row of its own, and keeps that row to the end."
    assert runs(f"First. {copied}") & runs(copied.upper())
    assert not runs("one `code` two three four five six seven eight")
