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
    """Views in both themes; text in one, every other page in the other: its colours are few."""
    size = {"width": 1280, "height": 900}
    wrong = []
    with watched_page(chromium, viewport=size) as page:
        page.set_default_timeout(patience())
        page.goto((built_book / f"{PAGES[number]}.html").as_uri())
        views = page.locator(".static-widget").count()
        if views:
            page.wait_for_selector(".kvv-slider", state="attached")
        for theme in THEMES if views else THEMES[number % 2 :][:1]:
            page.emulate_media(color_scheme=theme)
            page.evaluate(SET_THEME, theme)
            found = findings(page, VIEW) if views else []
            if theme == THEMES[number % 2]:
                found += [one for one in findings(page, TEXT) if one["impact"] in SERIOUS]
            if found:
                wrong.append(f"{theme}\n{told(found)}")
    assert not wrong, "\n".join(wrong)


def test_most_pages_show_a_view(built_book: Path) -> None:
    texts = [(built_book / f"{page}.html").read_text(encoding="utf-8") for page in PAGES]
    assert sum("static-widget" in text for text in texts) > 15
