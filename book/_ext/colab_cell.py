"""Writes Colab's cell (minisgl_lite/colab.py) into notebooks: below the title, or over the old one.

`python book/_ext/colab_cell.py [NOTEBOOK …]`; without names, all of book/ and solutions/. The
address in it is the one of `book_repository` in _config.yml: run this once after the repository got
its public remote, and commit what it changed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
import yaml
from page_buttons import CELL_ID, public_address, repository_of

from minisgl_lite.colab import FIRST_CELL

ROOT = Path(__file__).resolve().parents[2]
TAG = "remove-cell"  # the built book has no use for it


def first_cell(address: str) -> str:
    """The cell's source for a repository at `address`, "" where there is none."""
    return FIRST_CELL.replace('address = ""', f'address = "{address}"').rstrip("\n")


def put_cell(notebook: Any, address: str) -> None:
    """Bring the notebook's cell up to date, or insert it below the title."""
    cell = nbformat.v4.new_code_cell(first_cell(address), id=CELL_ID, metadata={"tags": [TAG]})
    kept = [other for other in notebook.cells if other.get("id") != CELL_ID]
    notebook.cells = [kept[0], cell, *kept[1:]]


def book_address(root: Path) -> str:
    """What `book_repository` in _config.yml comes to."""
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    given = settings["sphinx"]["config"]["book_repository"]
    return repository_of(root) if given == "auto" else public_address(given)


def main(names: list[str]) -> None:
    address = book_address(ROOT)
    folders = (ROOT / "book", ROOT / "solutions")
    paths = [Path(name) for name in names] or [p for f in folders for p in f.glob("*.ipynb")]
    for path in sorted(paths):
        before = path.read_text(encoding="utf-8")
        notebook = nbformat.reads(before, as_version=4)
        put_cell(notebook, address)
        after = nbformat.writes(notebook) + "\n"
        if after != before:
            path.write_text(after, encoding="utf-8", newline="\n")
            print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
