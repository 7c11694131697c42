"""The function that a view names is a link where the book's API reference has it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.book.browser import watched_page
from tests.book.throwaway import ROOT, Book


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that a view can name, as the book's extension finds them."""
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    names: list[str] = importlib.import_module("api_links").named_functions()
    return names


def test_every_function_that_a_view_names_is_found(named: list[str]) -> None:
    assert len(named) == 8  # for nine phases: receive and abort name the same
    assert "Scheduler._prepare_batch" in named


def test_a_page_knows_the_reference_and_nothing_more(story_book: Book) -> None:
    page = story_book.read("story")
    address = "reference.html#minisgl_lite.scheduler.Scheduler._prepare_batch"
    assert f'{{"Scheduler._prepare_batch":"{address}"}}' in page
    assert "kvv-api" not in story_book.read("reference")


@pytest.mark.browser
def test_the_name_in_the_view_leads_to_the_reference(story_book: Book, chromium: Any) -> None:
    with watched_page(chromium, viewport={"width": 1280, "height": 800}) as page:
        page.goto((story_book.html / "story.html").as_uri() + "#view=1&event=forward:r1")
        view = page.locator(".kvv").first
        view.locator(".kvv-phase", has_text="write").wait_for()
        assert view.locator(".kvv-source").inner_text() == "Engine.forward_batch"
        assert view.locator("a[href] .kvv-source").count() == 0  # the reference lacks it
        view.get_by_role("button", name="Previous sub-step").click()
        link = view.get_by_role("link", name="Scheduler._prepare_batch")
        assert link.bounding_box()["height"] >= 24
        link.click()
        page.wait_for_url("**/reference.html#minisgl_lite.scheduler.Scheduler._prepare_batch")
        assert not page.faults, page.faults


@pytest.mark.browser
def test_the_built_book_links_every_name(built_book: Path, named: list[str]) -> None:
    page = (built_book / "book" / "write-locations.html").read_text(encoding="utf-8")
    assert [name for name in named if f'"{name}":"api/' not in page] == []
