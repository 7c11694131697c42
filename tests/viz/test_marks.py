"""The marks of a pinned slot stay with its cells: when cells grow, and when they go."""

from __future__ import annotations

from typing import Any

import pytest

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
