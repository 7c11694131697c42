"""Small books that tests write, build with the real settings and extensions, and drop."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]

# Where it is found, jsonschema compiles its grammar for a second; nothing here needs it.
JUPYTER_BOOK = """
import sys
sys.modules["rfc3987_syntax"] = None
from jupyter_book.cli.main import main
main()
"""

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
    """A book below `folder` with the repository's _config.yml, extensions and static files.

    Where one lies already, that one.
    """

    def __init__(self, folder: Path, pages: dict[str, list[str]]) -> None:
        self.folder = folder
        if not (folder / "book").exists():
            self.write(pages)

    @property
    def html(self) -> Path:
        """Folder of the built pages."""
        return self.folder / "book" / "_build" / "html" / "book"

    def write(self, pages: dict[str, list[str]]) -> None:
        """Settings, extensions, a list of contents, and the pages."""
        folder = self.folder
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
        if all(isinstance(cell, Text) for cell in cells):
            notebook.metadata["mystnb"] = {"execution_mode": "off"}  # no kernel for nothing
        notebook.cells = [nbformat.v4.new_markdown_cell(f"# {name}", id="title")]
        for i, cell in enumerate(cells):
            kind = "markdown" if isinstance(cell, Text) else "code"
            make = getattr(nbformat.v4, f"new_{kind}_cell")
            notebook.cells.append(make(str(cell), id=f"cell-{i}"))
        nbformat.write(notebook, self.folder / "book" / f"{name}.ipynb")

    def build(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Build as a user would by hand; with `options`, as `make book` does."""
        command = [sys.executable, "-c", JUPYTER_BOOK, "build", ".", "--path-output", "book"]
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


def shared_book(factory: pytest.TempPathFactory, name: str, pages: dict[str, list[str]]) -> Book:
    """A book that the first worker who wants it builds for all of them. Nobody may change it."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder, done = base / name / "with spaces", base / name / "built"
    with FileLock(base / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(base / name, ignore_errors=True)
            built = Book(folder, pages).build("-W", "-n", "--keep-going")
            assert built.returncode == 0, built.stdout
            done.touch()
    return Book(folder, pages)
