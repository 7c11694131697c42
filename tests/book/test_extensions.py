"""The book's extensions, on throw-away books: what must build, and what must not."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sphinx.errors import ExtensionError
from sphinx_external_toc.parsing import parse_toc_yaml

from tests.book.browser import watched_page
from tests.book.throwaway import COUNTER, ROOT, Book, shared_book

STATE = re.compile(
    r'<script type="application/vnd.jupyter.widget-state\+json">(.*?)</script>', re.DOTALL
)
READ_PLANTED = """
import runpy
value = runpy.run_path("../minisgl_lite/planted.py")["VALUE"]
print(f"planted value: {value}")
with open("../ran.txt", "a") as file:
    file.write("ran\\n")
"""
WITH_PICTURE = """
class Pictured(Counter):
    def _repr_mimebundle_(self, **options):
        plain, metadata = super()._repr_mimebundle_(**options)
        return plain | {"text/html": f"<p>the count is {self.value}</p>"}, metadata
Pictured(value=8)
"""
GOOD_PAGES = {
    "one-widget": [COUNTER, "Counter(value=3)"],
    "two-widgets": [COUNTER, "first = Counter(value=5)\nfirst", "Counter(value=7)", "first"],
    "stock-widget": [COUNTER, "import ipywidgets\nipywidgets.IntSlider(value=9)", "Counter()"],
    "number": [READ_PLANTED],
    "picture": [COUNTER, WITH_PICTURE],
}
FAULTY_PAGES = {
    "raises": ["1 / 0"],
    "foreign": [
        "view = {'model_id': 'feed', 'version_major': 2, 'version_minor': 0}\n"
        "display({'application/vnd.jupyter.widget-view+json': view}, raw=True)",
        "from IPython.display import HTML\n"
        "HTML('<script src=\"https://example.org/a.js\"></script>')",
        "import anywidget\nclass Far(anywidget.AnyWidget):\n"
        "    _esm = 'import d3 from \"https://example.org/d3\"; export default {}'\nFar()",
    ],
    "sound": ["print('fine')"],
}


@pytest.fixture(scope="module")
def good_book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    """In a folder whose name has a space."""
    return shared_book(tmp_path_factory, "a good book", GOOD_PAGES)


def test_page_of_anywidgets_gets_the_small_loader_alone(good_book: Book) -> None:
    page = good_book.read("one-widget")
    assert "_static/widgets.js" in page
    assert "embed-amd" not in page
    assert "require.js" not in page


def test_page_with_stock_widgets_gets_the_vendored_manager(good_book: Book) -> None:
    page = good_book.read("stock-widget")
    assert "_static/vendor/npm/@jupyter-widgets/html-manager/dist/embed-amd.js" in page
    assert "_static/widgets.js" not in page


def test_page_without_widgets_gets_no_widget_script(good_book: Book) -> None:
    page = good_book.read("number")
    assert "widgets.js" not in page
    assert "embed-amd" not in page


def test_saved_state_holds_each_source_once_and_no_layout(good_book: Book) -> None:
    found = STATE.findall(good_book.read("two-widgets"))
    assert len(found) == 1
    state = json.loads(found[0])
    assert len(state["state"]) == 2
    assert len(state["sources"]) == 2  # one module, one style sheet
    assert found[0].count("createElement") == 1


def test_html_form_of_a_widget_stands_where_scripts_are_off(good_book: Book) -> None:
    assert "<noscript><p>the count is 8</p></noscript>" in good_book.read("picture")


def test_a_page_is_executed_once_in_a_build(good_book: Book) -> None:
    """Ahead of the reading (run_ahead.py), and not again by it."""
    assert (good_book.folder / "ran.txt").read_text(encoding="utf-8") == "ran\n"


def test_changed_package_code_runs_the_pages_again(good_book: Book, tmp_path: Path) -> None:
    shutil.copytree(good_book.folder, tmp_path / "copy")
    book = Book(tmp_path / "copy", {})
    write_toc(book, "number")  # the others would give the same answer, later
    planted = book.folder / "minisgl_lite" / "planted.py"
    assert "planted value: 41" in book.read("number")
    planted.write_text("VALUE = 42\n", encoding="utf-8")
    built = book.build()
    assert built.returncode == 0, built.stdout
    assert "planted value: 42" in book.read("number")
    assert (book.folder / "ran.txt").read_text(encoding="utf-8") == "ran\nran\n"


def write_toc(book: Book, *pages: str, unwritten: str = "") -> None:
    lines = ["format: jb-book", "root: book/index", "chapters:"]
    lines += [f"  - file: book/{page}" for page in pages]
    lines += ["meta:", f"  unwritten: [{unwritten}]"]
    (book.folder / "_toc.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_faulty_pages_fail_every_build_and_are_all_named(tmp_path: Path) -> None:
    book = Book(tmp_path / "faulty", FAULTY_PAGES)
    for options in ((), ("-W", "-n", "--keep-going")):  # the second build has nothing new to read
        built = book.build(*options)
        assert built.returncode != 0
        assert "book/raises: a cell raised CellExecutionError" in built.stdout
        assert "book/foreign: the widget feed has no saved state" in built.stdout
        assert "book/foreign: it would fetch https://example.org/a.js" in built.stdout
        assert "book/foreign: it would fetch https://example.org/d3" in built.stdout
        assert "book/sound" not in built.stdout.partition("cannot be published")[2]


def test_unwritten_pages_are_left_out_and_must_be_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Book(tmp_path / "book", {})
    write_toc(book, "later", unwritten="book/later")
    (book.folder / "book" / "later.md").write_text("# A draft\n", encoding="utf-8")
    built = book.build("-W", "-n", "--keep-going")
    assert built.returncode == 0, built.stdout
    assert not (book.html / "later.html").exists()
    write_toc(book, "later", unwritten="book/later, book/unheard-of")
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    settings = SimpleNamespace(external_site_map=parse_toc_yaml(book.folder / "_toc.yml"))
    with pytest.raises(ExtensionError, match=r"not in _toc\.yml: book/unheard-of"):
        importlib.import_module("unwritten").leave_out_unwritten(None, settings)


@pytest.mark.browser
@pytest.mark.parametrize("served", ["file", "http"])
def test_widgets_work_without_kernel_and_network(
    good_book: Book, chromium: Any, served: str, serve: Callable[[Path], str]
) -> None:
    if served == "file":
        address = good_book.html.as_uri()
    else:
        address = f"{serve(good_book.folder.parent)}/with%20spaces/book/_build/html/book"
    with watched_page(chromium, offline=served == "file") as page:
        page.goto(f"{address}/one-widget.html")
        page.get_by_role("button", name="count 3").click()
        page.get_by_role("button", name="count 4").wait_for()

        page.goto(f"{address}/two-widgets.html")
        page.get_by_role("button", name="count 5").first.click()
        assert page.get_by_role("button", name="count 6").count() == 2  # two views of one model
        assert page.get_by_role("button", name="count 7").count() == 1
        assert page.locator("style[data-widget]").count() == 1

        page.goto(f"{address}/stock-widget.html")
        page.get_by_role("slider").wait_for()
        page.get_by_role("button", name="count 0").click()
        page.get_by_role("button", name="count 1").wait_for()
        assert not page.faults, page.faults
