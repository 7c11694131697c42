"""axe-core on the built book: nothing in our views, nothing serious in what we wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.axe import findings, told
from tests.book.browser import watched_page
from tests.book.test_pages import PAGES, patience

pytestmark = pytest.mark.browser

SERIOUS = ("serious", "critical")
VIEW = {"include": [[".kvv"]]}
# What stands on a page by our hand, without the views.
TEXT = {"include": [["article"]], "exclude": [[".kvv"]]}
SET_THEME = "theme => { document.documentElement.dataset.theme = theme; }"
THEMES = ("light", "dark")


@pytest.mark.parametrize("number", range(len(PAGES)), ids=PAGES)
def test_axe_finds_nothing_in_a_view_and_nothing_serious_in_the_text(
    built_book: Path, chromium: Any, number: int
) -> None:
    """Every other page in the other theme; `tests/viz` looks at a view in both."""
    theme = THEMES[number % 2]
    with watched_page(
        chromium, viewport={"width": 1280, "height": 900}, color_scheme=theme
    ) as page:
        page.set_default_timeout(patience())
        page.goto((built_book / f"{PAGES[number]}.html").as_uri())
        views = page.locator(".static-widget").count()
        if views:
            page.wait_for_selector(".kvv-slider", state="attached")
        page.evaluate(SET_THEME, theme)
        found = findings(page, VIEW) if views else []
        found += [one for one in findings(page, TEXT) if one["impact"] in SERIOUS]
    assert not found, told(found)


def test_most_pages_show_a_view(built_book: Path) -> None:
    texts = [(built_book / f"{page}.html").read_text(encoding="utf-8") for page in PAGES]
    assert sum("application/vnd.jupyter.widget-view+json" in text for text in texts) > 15
