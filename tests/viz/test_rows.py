"""Rows of requests and nodes: each stays with what it shows; those out of sight follow later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minisgl_lite.trace import Trace
from tests.trace.big_run import big_run

from .runs import busy_run, crowded_run

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
    assert pinned.count() >= 1
    view.go(0)  # the request has not come yet
    view.tab.locator(".kvv-panel-selected .kvv-btn").first.click()
    view.settle()
    view.go(8)
    view.tab.wait_for_timeout(250)
    assert pinned.count() == 0


def test_the_tree_reads_out_the_node_that_takes_the_focus(
    open_view: Callable[..., Any], big: Trace, stops: list[int]
) -> None:
    """Also one that was out of sight, before the rest."""
    view = open_view(big, panels=["tree"])
    view.tab.focus('.kvv-tree [tabindex="0"]')
    for stop in stops[:3]:
        view.go(stop)
        view.tab.keyboard.press("End")
        view.settle()
        node = view.tab.locator(".kvv-tree g:focus").get_attribute("aria-label")
        assert view.text(".kvv-hoverline") == node
        assert f"node {nodes(big, stop)[:60][-1]}:" in node
        view.tab.keyboard.press("Home")


def nodes(trace: Trace, index: int) -> list[int]:
    """Nodes after a frame in the order in which they are drawn."""
    tree = trace.state_at(index).tree

    def walk(node: int) -> list[int]:
        return [node, *(one for child in sorted(tree[node].children) for one in walk(child))]

    return walk(0)


def test_a_focused_node_keeps_the_focus_when_it_moves(
    open_view: Callable[..., Any], big: Trace
) -> None:
    start = 900
    shown = nodes(big, start)
    moved, node = next(
        (index, node)
        for index in range(start + 1, len(big))
        for at, node in enumerate(nodes(big, index)[:20])
        if node in shown[:20] and shown.index(node) != at
    )
    view = open_view(big, panels=["tree"], start=start)
    view.tab.focus('.kvv-tree [tabindex="0"]')
    for _ in range(shown.index(node)):
        view.tab.keyboard.press("ArrowDown")
    focused = "document.activeElement.dataset.node"
    assert view.tab.evaluate(focused) == str(node)
    for index in range(start + 1, moved + 1):
        view.go(index)
    assert view.tab.evaluate(focused) == str(node)


def test_while_evictions_are_asked_for_the_tree_does_not_name_them(
    open_view: Callable[..., Any],
) -> None:
    trace = busy_run()
    view = open_view(trace, panels=["tree", "pool"])
    notes = view.tab.locator(".kvv-nodenote:visible", has_text="evicted next")
    asked = 0
    for index in [i for i, frame in enumerate(trace.frames) if frame["phase"] == "evict"]:
        view.go(index - 1)
        view.tab.click(".kvv-predicts")
        view.next()
        if view.frame() == index - 1:
            asked += 1
            assert notes.count() == 0
        view.tab.click(".kvv-predicts")
        view.settle()
        view.tab.wait_for_timeout(200)
        told = notes.count()
        view.go(index)
        view.go(index - 1)
        view.tab.wait_for_timeout(200)
        assert told == notes.count()
    assert asked >= 2


def test_a_release_takes_the_hue_of_a_picked_request(
    open_view: Callable[..., Any], big: Trace
) -> None:
    """A chunk's: its request goes on, and has slots to pick it by."""
    at, uid = next(
        (index, release["uid"])
        for index, frame in enumerate(big.frames)
        for release in frame.get("release", [])
        if not release["finished"] and index > 150
    )
    slot = big.state_at(at).owned(big.state_at(at).reqs[uid])[-1]
    view = open_view(big, panels=["release", "requests", "pool"], start=at)
    hue = ".kvv-release > [class^='kvv-hue']"
    before = view.tab.locator(hue).first.get_attribute("class")
    view.tab.fill(".kvv-panel-pool .kvv-num", str(slot))
    view.tab.press(".kvv-panel-pool .kvv-num", "Enter")
    view.settle()
    pinned = view.tab.locator(hue).evaluate_all("all => all.map(one => one.className)")
    view.go(at - 1)
    view.go(at)
    again = view.tab.locator(hue).evaluate_all("all => all.map(one => one.className)")
    assert pinned == again
    assert before == "kvv-hue6"
    assert "kvv-hue0" in pinned
