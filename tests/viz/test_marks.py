"""The marks of a pinned slot stay with its cells: when cells grow, and when they go."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from minisgl_lite.trace import Trace
from tests.trace.big_run import big_run

pytestmark = pytest.mark.browser
pytest.importorskip("anywidget")

# Where the pin's marks are in a panel, and where its active cell is.
MARKED = """(panel) => {
  const place = (node) => [node.style.transform, node.style.width, node.style.height].join();
  const grid = document.querySelector(`.kvv-panel-${panel}`);
  return [[...grid.querySelectorAll(".kvv-mark-pin")].map(place),
    place([...grid.querySelectorAll(".kvv-cell")].find((cell) => !cell.hidden))];
}"""


@pytest.fixture(scope="module")
def big() -> Trace:
    return big_run()


def pin(view: Any, panel: str) -> None:
    """Pin the first slot of a panel; a row of page_table may have none."""
    view.tab.focus(f'.kvv-panel-{panel} [role="gridcell"][tabindex="0"]')
    while "unused" in view.active(panel):
        view.tab.keyboard.press("ArrowDown")
    view.tab.keyboard.press("Enter")
    view.settle()


def out_locs(trace: Trace) -> list[set[int]]:
    """For each frame, the slots of its step's ``out_loc``, once they are known."""
    turns: dict[int, set[int]] = {}
    found = []
    for frame in trace.frames:
        if info := frame.get("batch_info"):
            turns[frame["turn"]] = {s for a, n in info["out_loc"] for s in range(a, a + n)}
        found.append(turns.get(frame["turn"], set()))
    return found


@pytest.mark.parametrize("panel", ["pool", "page_table"])
def test_a_mark_grows_with_its_cell(open_view: Any, big: Trace, panel: str) -> None:
    view = open_view(big, panels=[panel, "selected"], start=900)
    pin(view, panel)
    (before,), cell = view.tab.evaluate(MARKED, panel)
    assert before == cell
    view.tab.click(f".kvv-panel-{panel} [aria-label^='Larger cells']")
    (after,), cell = view.tab.evaluate(MARKED, panel)
    assert after == cell != before


def test_an_out_loc_without_the_pinned_slot_has_no_mark(open_view: Any, big: Trace) -> None:
    slots = out_locs(big)
    first = big.find("first-decode:r20")
    view = open_view(big, panels=["out_loc", "selected"], start=first)
    pin(view, "out_loc")
    view.tab.evaluate("document.activeElement.blur()")
    slot = int(view.text(".kvv-selected").split()[1].rstrip(","))
    assert slot in slots[first]
    seen = set()
    for index in range(first, first + 40):
        view.go(index)
        marks = view.tab.locator(".kvv-panel-out_loc .kvv-mark-pin").count()
        assert marks == (slot in slots[index]), index
        seen.add(marks)
    assert seen == {0, 1}


def test_a_panel_that_was_closed_opens_with_the_present_frame(open_view: Any, big: Trace) -> None:
    slots = out_locs(big)
    view = open_view(big, panels=["requests"], start=900)
    tab = view.tab.locator(".kvv-tab", has_text="out_loc")
    for index in (300, 900, 42, 1500, 264, 1800):
        tab.click()
        view.go(index)
        tab.click()
        view.go((index * 7) % len(big))
        tab.click()
        view.settle()
        at = view.frame()
        note = view.text(".kvv-panel-out_loc .kvv-note")
        assert note.startswith(f"{len(slots[at])} token" if slots[at] else "No batch"), at
        tab.click()
    assert not view.faults, view.faults


@pytest.mark.parametrize("ratio", [0.9, 1.25, 1.75])
def test_the_legend_shows_each_mark_at_any_ratio(open_view: Any, big: Trace, ratio: float) -> None:
    """A slot of one's own is plain: beside it stand others that are not."""
    view = open_view(big, device_scale_factor=ratio)
    shot = view.tab.locator('[data-item="own"] .kvv-swatch').screenshot()
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    inner = image.crop((2, 2, image.width - 2, image.height - 2))
    assert len(set(inner.getdata())) == 1
