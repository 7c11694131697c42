"""Rows of requests and nodes: each stays with what it shows; those out of sight follow later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minisgl_lite.trace import Trace
from tests.trace.big_run import big_run

from .runs import crowded_run

pytestmark = pytest.mark.browser
pytest.importorskip("anywidget")

# All that a reader gets of each row, in order. What a pointer or a pin marks is left out.
ROWS = """(selector) => [...document.querySelectorAll(selector)]
  .filter((row) => !row.closest("[hidden]"))
  .map((row) => [row, ...row.querySelectorAll("*")].map((node) => [
    ...["class", "style", "aria-label", "data-from", "d", "width"].map((name) =>
      node.getAttribute(name)),
    node.parentNode.getAttribute("transform"),
    node.children.length ? "" : node.textContent,
  ]))"""
PANELS = {"requests": (".kvv-req", ".kvv-reqbox"), "tree": (".kvv-tree > g > *", ".kvv-treebox")}


@pytest.fixture(scope="module")
def big() -> Trace:
    """Up to 64 requests at once, some 80 nodes."""
    return big_run()


@pytest.fixture(scope="module")
def stops(big: Trace) -> list[int]:
    """Jumps, then single steps in which requests and nodes come and go."""
    released = [i for i, frame in enumerate(big.frames) if frame.get("release")][40]
    return [len(big) // 2, 300, 1200, 900, *range(released - 2, released + 4)]


def rows(view: Any, panel: str) -> list[Any]:
    return view.tab.evaluate(ROWS, PANELS[panel][0])


@pytest.mark.parametrize("panel", PANELS)
def test_at_rest_all_rows_are_those_of_a_view_opened_there(
    open_view: Callable[..., Any], big: Trace, stops: list[int], panel: str
) -> None:
    view = open_view(big, panels=[panel])
    for stop in stops:
        view.go(stop)
        view.tab.wait_for_timeout(250)
        found = rows(view, panel)
        fresh = open_view(big, panels=[panel], start=stop)
        fresh.tab.wait_for_timeout(250)
        assert found == rows(fresh, panel), f"frame {stop}"
        assert len(found) >= 12
        fresh.tab.close()


@pytest.mark.parametrize("panel", PANELS)
def test_what_scrolls_into_sight_is_up_to_date(
    open_view: Callable[..., Any], big: Trace, stops: list[int], panel: str
) -> None:
    """Sooner than after the rest: the timers do not run here."""
    box = PANELS[panel][1]
    view = open_view(big, panels=[panel])
    view.tab.wait_for_timeout(250)
    view.tab.evaluate("window.setTimeout = () => 0")
    for stop in stops[:3]:
        view.go(stop)
        waiting = rows(view, panel)
        view.tab.evaluate("(box) => (document.querySelector(box).scrollTop = 90)", box)
        view.settle()
        fresh = open_view(big, panels=[panel], start=stop)
        fresh.tab.wait_for_timeout(250)
        wanted = rows(fresh, panel)
        assert rows(view, panel) == wanted, f"frame {stop}"
        assert waiting != wanted, "every row was drawn at once"
        fresh.tab.close()
        view.tab.evaluate("(box) => (document.querySelector(box).scrollTop = 0)", box)
        view.settle()


def test_a_pin_that_is_given_up_while_its_row_is_away_is_gone_when_the_row_comes_back(
    open_view: Callable[..., Any],
) -> None:
    view = open_view(crowded_run(), panels=["requests", "selected"], start=8)
    pinned = view.tab.locator(".kvv-req .kvv-pinned")
    view.tab.wait_for_timeout(250)
    view.tab.locator(".kvv-req .kvv-tok").first.click()
    view.tab.mouse.move(2, 2)
    view.settle()
    assert pinned.count() == 1
    view.go(0)  # the request has not come yet
    view.tab.locator(".kvv-panel-selected .kvv-btn").first.click()
    view.settle()
    view.go(8)
    view.tab.wait_for_timeout(250)
    assert pinned.count() == 0
