"""What the pages' cells said when the book was built: what is stored with them, and in good time.

The build executes every page (book/_ext/run_ahead.py) and keeps the outputs; here nothing runs.
`make check-book` executes the pages with nbval, three times.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_cache import get_cache
from jupyter_cache.base import JupyterCacheAbstract

from tests.book.test_notebooks import NOTEBOOKS, is_compared

NOT_COMPARED = {"metadata", "execution_count", "traceback"}
LONGEST = 60  # seconds for a cell, on two cores

pytestmark = pytest.mark.built


@pytest.fixture(scope="module")
def cache(built_book: Path) -> JupyterCacheAbstract:
    """The outputs of the last build, found by the cells that gave them."""
    return get_cache(str(built_book.parent / ".jupyter_cache"))


def executed(cache: JupyterCacheAbstract, path: Path) -> Any:
    """The page with the outputs of this build; none of another text, or of none."""
    notebook = nbformat.read(path, as_version=4)
    return cache.merge_match_into_notebook(notebook)[1]


def said(cell: Any) -> list[dict[str, Any]]:
    """A cell's outputs, as far as they must be the same each time: a stream is one text."""
    outputs: list[dict[str, Any]] = []
    for output in cell.outputs:
        kept = {key: value for key, value in output.items() if key not in NOT_COMPARED}
        streams = [one for one in outputs if "name" in kept and one.get("name") == kept["name"]]
        if streams:
            streams[0]["text"] += kept["text"]
        else:
            outputs.append(kept)
    return outputs


def differences(stored: Any, run: Any) -> list[str]:
    """Marked cells that said something else than what is stored with them."""
    cells = [(one, other) for one, other in zip(stored.cells, run.cells, strict=True)]
    return [
        f"{one.id}: stored {said(one)}, now {said(other)}"
        for one, other in cells
        if is_compared(one) and said(one) != said(other)
    ]


def slow_cells(seconds: dict[str, float]) -> list[str]:
    return [f"{cell}: {took:.0f} s" for cell, took in seconds.items() if took > LONGEST]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_marked_cells_said_what_is_stored_with_them(
    cache: JupyterCacheAbstract, path: Path
) -> None:
    assert differences(nbformat.read(path, as_version=4), executed(cache, path)) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_cell_needs_more_than_a_minute(cache: JupyterCacheAbstract, path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    seconds = cache.match_cache_notebook(notebook).data["cells"]
    assert set(seconds) == {c.id for c in notebook.cells if c.cell_type == "code" and c.source}
    assert slow_cells(seconds) == []


def cell(*texts: str, **more: Any) -> Any:
    outputs = [nbformat.v4.new_output("stream", text=text) for text in texts]
    return nbformat.v4.new_code_cell("f()", id="a", outputs=outputs, metadata=more)


def page(*cells: Any) -> Any:
    return nbformat.v4.new_notebook(cells=list(cells))


def test_another_text_is_a_difference_and_another_cut_of_it_is_not() -> None:
    stored = page(cell("one\n", "two\n", tags=["nbval-check-output"]))
    assert not differences(stored, page(cell("one\ntwo\n")))
    for other in (cell("one\ntwo"), cell(), cell("one\ntwo\n", "three\n")):
        (found,) = differences(stored, page(other))
        assert found.startswith("a: stored")
    assert not differences(page(cell("one\n")), page(cell("two\n")))  # not marked


def test_a_cell_of_61_seconds_is_slow() -> None:
    assert slow_cells({"a": 61.2, "b": 60.0, "c": 0.1}) == ["a: 61 s"]
