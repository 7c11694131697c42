"""Lists the bare numbers of the pages' prose: those that no cell of their page holds.

`python -m tests.book.bare_numbers` prints each with its surroundings. A number of two digits or
more counts as held when it stands in the page's code or in an output that nbval compares. What is
bare must be in bare_numbers.yml: with the arithmetic it comes from, or with a word on why not.
Dates, numbers of list items and addresses don't count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
NUMBER = re.compile(r"(?<![\w.#/-])\d[\d,]*(?:\.\d+)?(?!\w)")
DROPPED = [  # (what, what stays of it)
    (re.compile(r"```.*?```", re.DOTALL), " "),
    (re.compile(r"\{[\w:]+\}`([^<`]*)(?:<[^`]*>)?`"), r"\1"),  # a role, its text kept
    (re.compile(r"`[^`]*`"), " "),
    (re.compile(r"<[^>]*>"), " "),
    (re.compile(r"\]\([^)]*\)"), "]"),
    (re.compile(r"https?://\S+"), " "),
    (re.compile(rf"(?:\d{{1,2}} )?(?:{MONTHS}|OSDI) \d{{4}}"), " "),
    (re.compile(r"^\s*\d+\. ", re.MULTILINE), ""),
    (re.compile(r"\*Reading time.*"), ""),
]


class Bare(NamedTuple):
    """A number, without its commas, the cell it stands in, and the words around it."""

    number: str
    cell: str
    around: str


def prose(markdown: str) -> str:
    """A cell's text without code, roles, tags and addresses."""
    for pattern, kept in DROPPED:
        markdown = pattern.sub(kept, markdown)
    return markdown


def held(cells: list[dict[str, Any]]) -> set[str]:
    """The numbers in the code of a page, and in the outputs stored with it."""
    numbers: set[str] = set()
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        text = "".join(cell["source"]).replace("_", "")
        for output in cell["outputs"]:
            text += " " + "".join(output.get("text", [])) + json.dumps(output.get("data", {}))
        numbers |= {found.replace(",", "") for found in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}
        numbers |= set(re.findall(r"\d+", text))
    return numbers


def bare_numbers(cells: list[dict[str, Any]]) -> Iterator[Bare]:
    """Each bare number of a page, as often as it stands there."""
    backed = held(cells)
    for cell in cells:
        if cell["cell_type"] != "markdown":
            continue
        text = prose("".join(cell["source"]))
        for match in NUMBER.finditer(text):
            number = match.group().rstrip(",").replace(",", "")
            if number not in backed and len(number) > 1:
                around = text[max(0, match.start() - 40) : match.end() + 30]
                yield Bare(number, cell["id"], " ".join(around.split()))


def pages() -> dict[str, list[dict[str, Any]]]:
    """The cells of each page, by its slug."""
    paths = sorted((ROOT / "book").glob("*.ipynb"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8"))["cells"] for path in paths}


if __name__ == "__main__":
    for slug, cells in pages().items():
        for bare in bare_numbers(cells):
            print(f"{slug} [{bare.cell}] {bare.number}: {bare.around}")
