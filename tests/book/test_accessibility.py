"""axe-core on the built book: nothing in our views, nothing serious in what we wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.axe import findings, told
from tests.book.browser import watched_page

pytestmark = pytest.mark.browser

SERIOUS = ("serious", "critical")
VIEW = {"include": [[".kvv"]]}
# What stands on a page by our hand, without the views.
TEXT = {"include": [["article"]], "exclude": [[".kvv"]]}


def pages(book: Path) -> list[Path]:
    """Those below `book/`; what stands above it leads there."""
    return sorted((book / "book").glob("*.html"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_a_view_and_nothing_serious_in_the_text(
    built_book: Path, chromium: Any, theme: str
) -> None:
    seen, wrong = 0, []
    size = {"width": 1280, "height": 900}
    for path in pages(built_book):
        with watched_page(chromium, viewport=size, color_scheme=theme) as page:
            page.goto(path.as_uri())
            views = page.locator(".static-widget").count()
            if views:
                page.wait_for_selector(".kvv-slider", state="attached")
                seen += views
            page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
            inside = findings(page, VIEW) if views else []
            text = [one for one in findings(page, TEXT) if one["impact"] in SERIOUS]
            if found := inside + text:
                wrong.append(f"{path.name}\n{told(found)}")
    assert not wrong, "\n".join(wrong)
    assert seen, "no page of the book shows a view"
