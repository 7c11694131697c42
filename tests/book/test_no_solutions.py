"""What only solutions have, answers and marking guides, is nowhere in the students' built book."""

from __future__ import annotations

import html
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
TAG = re.compile(r"<[^>]+>")
LONG = 30
"""Shorter lines are nobody's secret: `return True`."""


def secret_lines() -> set[str]:
    """Lines of answers and guides that stand neither in the package nor on a page."""
    known = "".join(
        path.read_text(encoding="utf-8")
        for folder, pattern in (("minisgl_lite", "*.py"), ("book", "*.ipynb"))
        for path in (ROOT / folder).rglob(pattern)
        if not {"_build", "exercises"} & set(path.parts)
    )
    found, inside = set(), False
    for path in sorted((ROOT / "solutions").glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            for line in map(str.strip, cell.source.split("\n")):
                if line.startswith("###"):
                    inside = line in ("### BEGIN SOLUTION", "### BEGIN MARK SCHEME")
                elif inside and len(line) >= LONG and line not in known:
                    found.add(line)
    return found


def leaks(folder: Path) -> list[str]:
    """Files of solutions, and those that hold one of their lines."""
    secret = secret_lines()
    found = []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".html", ".ipynb", ".js", ".md", ".txt", ".py"):
            continue
        text = html.unescape(TAG.sub("", path.read_text(encoding="utf-8")))
        found += [f"{path}: {line}" for line in secret if line in text]
        found += [str(path)] * ("solutions" in path.relative_to(folder).parts)
    return found


@pytest.mark.browser
def test_the_built_book_has_no_solution_in_it(built_book: Path) -> None:
    assert leaks(built_book) == []


def test_a_solution_on_a_page_is_found(tmp_path: Path) -> None:
    secret = secret_lines()
    assert len(secret) > 50 and any("slots of that owner" in line for line in secret)
    (tmp_path / "page.html").write_text(
        '<span class="k">return</span> <b>scores</b>.masked_fill(<i>~visible</i>, '
        "float(&quot;-inf&quot;)).softmax(-1) @ v",
        encoding="utf-8",
    )
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "a.html").touch()
    assert [Path(leak.partition(":")[0]).name for leak in leaks(tmp_path)] == [
        "page.html",
        "a.html",
    ]
