"""The book's extensions, on throw-away books: what must build, and what must not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.book.browser import watched_page
from tests.book.throwaway import COUNTER, Book

STATE = re.compile(
    r'<script type="application/vnd.jupyter.widget-state\+json">(.*?)</script>', re.DOTALL
)
READ_PLANTED = """
import runpy
value = runpy.run_path("../minisgl_lite/planted.py")["VALUE"]
print(f"planted value: {value}")
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
    "lost-widget": [
        "view = {'model_id': 'feed', 'version_major': 2, 'version_minor': 0}\n"
        "display({'application/vnd.jupyter.widget-view+json': view}, raw=True)"
    ],
    "remote-script": [
        "from IPython.display import HTML\nHTML('<script src=\"https://example.org/a.js\"></script>')"
    ],
    "remote-import": [
        "import anywidget\nclass Far(anywidget.AnyWidget):\n"
        "    _esm = 'import d3 from \"https://example.org/d3\"; export default {}'\nFar()"
    ],
    "sound": ["print('fine')"],
}


@pytest.fixture(scope="module")
def good_book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    """Built once, in a folder whose name has a space."""
    book = Book(tmp_path_factory.mktemp("a book") / "with spaces", GOOD_PAGES)
    built = book.build("-W", "-n", "--keep-going")
    assert built.returncode == 0, built.stdout
    return book


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


def test_changed_package_code_runs_the_pages_again(good_book: Book) -> None:
    planted = good_book.folder / "minisgl_lite" / "planted.py"
    assert "planted value: 41" in good_book.read("number")
    planted.write_text("VALUE = 42\n", encoding="utf-8")
    built = good_book.build()
    assert built.returncode == 0, built.stdout
    assert "planted value: 42" in good_book.read("number")


def test_faulty_pages_fail_every_build_and_are_all_named(tmp_path: Path) -> None:
    book = Book(tmp_path / "faulty", FAULTY_PAGES)
    for options in ((), ("-W", "-n", "--keep-going")):  # the second build has nothing new to read
        built = book.build(*options)
        assert built.returncode != 0
        assert "book/raises: a cell raised CellExecutionError" in built.stdout
        assert "book/lost-widget: the widget feed has no saved state" in built.stdout
        assert "book/remote-script: it would fetch https://example.org/a.js" in built.stdout
        assert "book/remote-import: it would fetch https://example.org/d3" in built.stdout
        assert "book/sound" not in built.stdout.partition("cannot be published")[2]


def test_unwritten_pages_are_left_out_and_must_be_known(tmp_path: Path) -> None:
    book = Book(tmp_path / "book", {})
    toc = "format: jb-book\nroot: book/index\nchapters:\n  - file: book/later\nmeta:\n"
    path = book.folder / "_toc.yml"
    path.write_text(toc + "  unwritten: [book/later]\n", encoding="utf-8")
    (book.folder / "book" / "later.md").write_text("# A draft\n", encoding="utf-8")
    built = book.build("-W", "-n", "--keep-going")
    assert built.returncode == 0, built.stdout
    assert not (book.html / "later.html").exists()
    path.write_text(toc + "  unwritten: [book/later, book/unheard-of]\n", encoding="utf-8")
    built = book.build()
    assert built.returncode != 0
    assert "unwritten, but not in _toc.yml: book/unheard-of" in built.stdout


@pytest.mark.browser
@pytest.mark.parametrize("served", ["file", "http"])
def test_widgets_work_without_kernel_and_network(
    good_book: Book, chromium: Any, served: str, request: pytest.FixtureRequest
) -> None:
    if served == "file":
        address = good_book.html.as_uri()
    else:
        serve = request.getfixturevalue("serve")
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
