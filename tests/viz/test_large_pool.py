"""A pool of 65,536 slots: an overview, zoom, steps; a named slot is what Python says."""

from __future__ import annotations

from typing import Any

import pytest

from minisgl_lite.toy import Toy
from minisgl_lite.trace import Recorder, Trace

pytest.importorskip("anywidget")

PAGES, PAGE_SIZE = 4096, 16
CANVAS = ".kvv-panel-pool canvas"


@pytest.fixture(scope="module")
def large() -> Trace:
    """Two requests in a pool of 65,536 slots."""
    toy = Toy(page_size=PAGE_SIZE, num_pages=PAGES)
    with Recorder(toy) as recorder:
        toy.add("the cat sat on the mat and the dog ran to the door again", says="and slept .")
        toy.add("my owl", says="is here today")
        toy.run()
    return recorder.trace()


def picture(view: Any) -> str:
    return view.tab.evaluate(f"document.querySelector('{CANVAS}').toDataURL()")


def overflow(view: Any) -> int:
    return view.tab.evaluate(
        "(() => { const g = document.querySelector('.kvv-panel-pool .kvv-grid');"
        " return g.scrollHeight - g.clientHeight; })()"
    )


def go_to(view: Any, slot: int) -> str:
    """Type a slot's number; the name of the cell that has the focus then."""
    view.tab.fill(".kvv-panel-pool input[type=number]", str(slot))
    view.tab.press(".kvv-panel-pool input[type=number]", "Enter")
    view.settle()
    assert view.tab.evaluate("document.activeElement.getAttribute('role')") == "gridcell"
    return view.tab.evaluate("document.activeElement.getAttribute('aria-label')")


def test_65536_slots_open_zoom_and_step(open_view: Any, large: Trace) -> None:
    view = open_view(large, panels=["pool", "requests"], start="forward:r1")
    assert view.tab.locator('.kvv-panel-pool [role="grid"]').get_attribute("aria-rowcount")
    before = picture(view)
    small = overflow(view)
    for _ in range(3):
        view.tab.click(".kvv-panel-pool [aria-label^='Larger cells']")
    view.settle()
    assert overflow(view) > small
    assert picture(view) != before
    for _ in range(3):
        view.tab.click(".kvv-panel-pool [aria-label^='Smaller cells']")
    index = view.frame()
    while not (slots := [s for s in large.state_at(index).slots() if s.written_now]):
        view.next()
        index = view.frame()
    written = slots[-1]
    uid, position = written.holders[0]
    name = go_to(view, written.slot)
    page = written.slot // PAGE_SIZE
    assert name.startswith(f"slot {written.slot}, page {page}, r{uid}, position {position}")
    assert "written now" in name
    last = PAGES * PAGE_SIZE - 1
    assert go_to(view, last).startswith(f"slot {last}, page {PAGES - 1}, free")
    assert view.faults.console == []


def test_of_65536_cells_only_those_that_changed_are_drawn(open_view: Any, large: Trace) -> None:
    """How much of the picture each step puts on the canvas, and that it is the whole truth."""
    view = open_view(large, panels=["pool"], start=0)
    view.tab.evaluate(
        """() => {
          window.put = [];
          const put = CanvasRenderingContext2D.prototype.putImageData;
          CanvasRenderingContext2D.prototype.putImageData = function (...given) {
            window.put.push((given[5] ?? this.canvas.width) * (given[6] ?? this.canvas.height));
            put.apply(this, given);
          };
        }"""
    )
    whole = view.tab.evaluate(f"document.querySelector('{CANVAS}').width") * view.tab.evaluate(
        f"document.querySelector('{CANVAS}').height"
    )
    put = []
    for index in range(1, len(large)):
        view.tab.evaluate("window.put = []")
        view.go(index)
        put += view.tab.evaluate("window.put")
        stepped = picture(view)
        for theme in ("dark", "light"):  # another theme draws all anew
            view.tab.evaluate("(t) => (document.documentElement.dataset.theme = t)", theme)
            view.settle()
        assert picture(view) == stepped, index
    assert len(put) < len(large) - 1, "steps that change no slot draw nothing"
    assert max(put) < whole / 20


def test_in_another_theme_small_cells_are_those_of_a_view_opened_in_it(
    open_view: Any, large: Trace
) -> None:
    view = open_view(large, panels=["pool"], start=len(large) // 2)
    light = picture(view)
    view.tab.evaluate("document.documentElement.dataset.theme = 'dark'")
    view.settle()
    fresh = open_view(large, panels=["pool"], start=len(large) // 2, theme="dark")
    assert picture(view) == picture(fresh) != light
