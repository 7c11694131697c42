"""axe-core finds nothing in our views: in each form, with everything open, light and dark."""

from __future__ import annotations

from typing import Any

import pytest

from minisgl_lite.toy import Toy
from minisgl_lite.viz import compare, show
from minisgl_lite.viz.view import PANELS
from tests.axe import findings, told

from .grids import chapter_grid
from .opened import Opened
from .pairs import pairs
from .runs import busy_run

pytestmark = pytest.mark.browser
pytest.importorskip("anywidget")

VIEWS = {
    "recorded": lambda: show(busy_run(), panels=PANELS),
    "live": lambda: show(Toy(page_size=4, num_pages=8)),
    "two runs": lambda: compare(*pairs()["naive | radix"], labels=("naive", "radix")),
    "variants": lambda: show(chapter_grid(), panels=["pool", "tree"], variant={"page_size": 4}),
    "small": lambda: show(busy_run(), panels=["pool"], small=True),
}


def open_everything(view: Opened) -> None:
    """The menu, the step's table, a pinned slot, every tab."""
    view.tab.evaluate(
        "document.querySelectorAll('.kvv-tab[aria-pressed=false]').forEach((tab) => tab.click())"
    )
    view.tab.evaluate("document.querySelectorAll('.kvv-settings').forEach((d) => (d.open = true))")
    view.tab.click(".kvv-menu summary")
    view.tab.get_by_text("Table of this step").click()
    view.tab.click(".kvv-menu summary")
    view.settle()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", VIEWS)
def test_axe_finds_nothing(open_view: Any, name: str, width: int, theme: str) -> None:
    body = "" if theme == "light" else "background: #121212; color: #eee"
    view = open_view(
        VIEWS[name](), size=(width, 900), theme=theme, body=body, static=name != "live"
    )
    view.go(int(view.tab.locator(".kvv-slider").get_attribute("max")) // 2)
    opening = findings(view.tab)
    assert opening == [], told(opening)
    open_everything(view)
    unfolded = findings(view.tab)
    assert unfolded == [], told(unfolded)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_behind_any_tab_of_a_phone(open_view: Any, theme: str) -> None:
    view = open_view(busy_run(), size=(390, 844), theme=theme)
    view.go(view.frame() + 20)
    for tab in view.tab.locator(".kvv-tab").all():
        tab.click()
        view.settle()
        found = findings(view.tab, ".kvv")
        assert found == [], f"{tab.inner_text()}\n{told(found)}"


def test_axe_finds_what_is_wrong(open_view: Any) -> None:
    """The judge is judged: a button without a name, text of too little contrast."""
    view = open_view(busy_run())
    view.tab.evaluate(
        "() => { document.querySelector('.kvv-next').removeAttribute('aria-label');"
        " document.querySelector('.kvv-next').removeAttribute('title');"
        " document.querySelector('.kvv-words').style.color = '#bbb'; }"
    )
    assert {"button-name", "color-contrast"} <= {one["id"] for one in findings(view.tab)}
