"""Links to a step of a view, on a throw-away book: copied in one page, followed in another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.book.browser import watched_page
from tests.book.throwaway import Book

pytestmark = pytest.mark.browser

CHANGED = "The run has changed since this link was made"


@contextmanager
def opened(book: Book, chromium: Any, link: str = "") -> Iterator[Any]:
    """The story's page at an address; both views are drawn."""
    with watched_page(chromium, viewport={"width": 1280, "height": 800}) as page:
        page.goto((book.html / "story.html").as_uri() + link)
        page.wait_for_selector(".kvv-slider >> nth=1")
        settle(page)
        yield page
        assert not page.faults, page.faults


def settle(page: Any) -> None:
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def phases(page: Any) -> list[str]:
    return page.locator(".kvv .kvv-phase").all_inner_texts()


def top(view: Any) -> float:
    return view.evaluate("(view) => view.getBoundingClientRect().top")


def copy_link(page: Any, number: int) -> str:
    """What the menu of a view copies."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    view = page.locator(".kvv").nth(number)
    view.locator("summary", has_text="More").click()
    view.get_by_role("button", name="Copy link to this step").click()
    view.get_by_text("Copied.").wait_for(state="attached")
    return page.evaluate("navigator.clipboard.readText()")


def test_a_copied_link_leads_back_to_view_step_and_slot(story_book: Book, chromium: Any) -> None:
    with opened(story_book, chromium) as page:
        page.get_by_role("button", name="their slots").click()
        page.get_by_role("button", name="r2 ends").click()
        settle(page)
        links = [copy_link(page, 0), copy_link(page, 1)]
        shown = phases(page)
    address, first = links[0].split("#")
    assert address == (story_book.html / "story.html").as_uri()
    assert first.startswith("view=1&event=prepare:r1&pin=3&run=")
    assert links[1].split("#")[1].startswith("view=second&event=")
    with opened(story_book, chromium, "#" + first) as page:
        assert phases(page) == [shown[0], phases(page)[1]]
        assert page.locator(".kvv").first.locator(".kvv-mark-pin").first.is_visible()
        assert "receive" in phases(page)[1]  # the other view stays
        assert page.get_by_text(CHANGED).count() == 0
    with opened(story_book, chromium, "#" + links[1].split("#")[1]) as page:
        assert phases(page)[1] == shown[1]
        assert "receive" in phases(page)[0]
        assert 0 <= top(page.locator(".kvv").nth(1)) < 400


def test_a_link_that_is_followed_in_the_page_moves_its_view(
    story_book: Book, chromium: Any
) -> None:
    with opened(story_book, chromium) as page:
        page.evaluate("location.hash = '#view=second&event=allocate:r1'")
        page.locator(".kvv >> nth=1").locator(".kvv-phase", has_text="allocate").wait_for()
        page.evaluate("location.hash = '#view=third&event=end'")
        page.evaluate("location.hash = '#story'")
        settle(page)
        assert "receive" in phases(page)[0]
        assert "allocate" in phases(page)[1]


def test_a_link_to_another_run_says_so_in_its_view(story_book: Book, chromium: Any) -> None:
    link = "#view=second&event=allocate:r2&run=000000000000"
    with opened(story_book, chromium, link) as page:
        first, second = page.locator(".kvv").all()
        assert second.get_by_text(CHANGED).first.is_visible()
        assert first.get_by_text(CHANGED).count() == 0
        assert "allocate" in phases(page)[1]
        second.get_by_role("button", name="Close this note").click()
        assert not second.locator(".kvv-changed-run").count()
    with opened(story_book, chromium, "#view=second&event=evict&run=000000000000") as page:
        second = page.locator(".kvv").nth(1)
        assert second.get_by_text("does not happen any more").first.is_visible()


def test_without_a_clipboard_the_link_stands_in_the_address(
    story_book: Book, chromium: Any
) -> None:
    with opened(story_book, chromium) as page:
        page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
        view = page.locator(".kvv").first
        view.locator("summary", has_text="More").click()
        view.get_by_role("button", name="Copy link to this step").click()
        view.get_by_text("The link stands in the address bar.").wait_for(state="attached")
        assert page.evaluate("location.hash").startswith("#view=1&event=receive")
