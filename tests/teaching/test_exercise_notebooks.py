"""The students' notebooks as handed out: they run to their end, and nothing is done yet."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest

EXERCISES = sorted((Path(__file__).resolve().parents[2] / "exercises").glob("*.ipynb"))


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_untouched_it_runs_through_and_every_check_says_not_done_yet(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    said = {
        cell.id.removesuffix("-check"): "".join(output.get("text", "") for output in cell.outputs)
        for cell in notebook.cells
        if cell.id.endswith("-check")
    }
    assert said
    assert said == {name: f"not done yet: {name}\n" for name in said}
