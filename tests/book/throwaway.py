"""Small books that a test writes, builds with the real settings and extensions, and drops."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]

# A widget as small as they come: it shows its number and a button that counts it up.
COUNTER = '''
import anywidget, traitlets

class Counter(anywidget.AnyWidget):
    _esm = """
    function render({ model, el }) {
      const button = document.createElement("button");
      const show = () => { button.textContent = `count ${model.get("value")}`; };
      button.addEventListener("click", () => {
        model.set("value", model.get("value") + 1);
        model.save_changes();
      });
      model.on("change:value", show);
      show();
      el.append(button);
    }
    export default { render };
    """
    _css = "button { color: rebeccapurple; }"
    value = traitlets.Int(0).tag(sync=True)
'''


class Text(str):
    """A cell of a page that is Markdown, not code."""


class Book:
    """A book below `folder` with the repository's _config.yml, extensions and static files."""

    def __init__(self, folder: Path, pages: dict[str, list[str]]) -> None:
        self.folder = folder
        self.html = folder / "book" / "_build" / "html" / "book"
        (folder / "book").mkdir(parents=True)
        (folder / "minisgl_lite").mkdir()
        (folder / "minisgl_lite" / "planted.py").write_text("VALUE = 41\n", encoding="utf-8")
        shutil.copy(ROOT / "_config.yml", folder)
        for name in ("_ext", "_static"):
            shutil.copytree(ROOT / "book" / name, folder / "book" / name)
        toc = ["format: jb-book", "root: book/index", "chapters:"]
        (folder / "book" / "index.md").write_text("# A small book\n", encoding="utf-8")
        for name, cells in pages.items():
            self.write_page(name, cells)
            toc.append(f"  - file: book/{name}")
        (folder / "_toc.yml").write_text("\n".join(toc) + "\n", encoding="utf-8")

    def write_page(self, name: str, cells: list[str]) -> None:
        """A notebook with one cell per text, under a heading with its name."""
        notebook = nbformat.v4.new_notebook()
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        notebook.cells = [nbformat.v4.new_markdown_cell(f"# {name}", id="title")]
        for i, cell in enumerate(cells):
            kind = "markdown" if isinstance(cell, Text) else "code"
            make = getattr(nbformat.v4, f"new_{kind}_cell")
            notebook.cells.append(make(str(cell), id=f"cell-{i}"))
        nbformat.write(notebook, self.folder / "book" / f"{name}.ipynb")

    def build(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Build as a user would by hand; with `options`, as `make book` does."""
        jupyter_book = "from jupyter_book.cli.main import main; main()"
        command = [sys.executable, "-c", jupyter_book, "build", ".", "--path-output", "book"]
        return subprocess.run(
            [*command, *options],
            cwd=self.folder,
            # The folder's own minisgl_lite is no package: the path leads to the real one.
            env=os.environ | {"NO_COLOR": "1", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def read(self, name: str) -> str:
        return (self.html / f"{name}.html").read_text(encoding="utf-8")
