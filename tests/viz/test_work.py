"""What a step may cost, counted: draws and changes of the DOM. Times are ``make bench-view``'s."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minisgl_lite.trace import Trace
from minisgl_lite.viz import compare, show
from tests.trace.big_run import big_run

from .bench_view import ALL
from .grids import chapter_grid
from .work import count

pytestmark = pytest.mark.browser
pytest.importorskip("anywidget")

CHANGES = 300


@pytest.fixture(scope="module")
def big() -> Trace:
    """300 steps, 232 requests, 4,096 slots, a table of 64 x 512."""
    return big_run()


VIEWS: dict[str, tuple[Callable[[Trace], Any], int]] = {
    "three panels": (show, 2),
    "eight panels": (lambda trace: show(trace, panels=ALL), 4),
    "two runs": (lambda trace: compare(trace, big_run(cache_type="naive"), start=0), 4),
    "variants": (lambda trace: show(chapter_grid()), 2),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_step_draws_each_canvas_once_and_changes_little(
    open_view: Any, big: Trace, name: str
) -> None:
    make, canvases = VIEWS[name]
    view = open_view(make(big))
    last = int(view.tab.locator(".kvv-slider").get_attribute("max"))
    begin = min(1100, last // 2)
    view.go(begin)
    view.tab.wait_for_timeout(250)  # rows out of sight follow the jump
    counts = count(view.tab, list(range(begin + 1, min(last, begin + 120))))
    assert max(counts.draws) == 1
    assert counts.canvases == canvases
    assert max(counts.changes) <= CHANGES, counts.changes
    assert not view.faults, view.faults


@pytest.mark.parametrize("name", VIEWS)
def test_several_moves_within_one_frame_are_drawn_once(
    open_view: Any, big: Trace, name: str
) -> None:
    make, canvases = VIEWS[name]
    view = open_view(make(big))
    last = int(view.tab.locator(".kvv-slider").get_attribute("max"))
    counts = count(view.tab, [[1, 2, 3, 4, last // 4], [last, 0, last, last // 2], [0, last]])
    assert counts.draws == [1, 1, 1]
    assert counts.canvases == canvases


def test_a_jump_changes_little_of_the_opening_form(open_view: Any, big: Trace) -> None:
    view = open_view(big)
    last = len(big) - 1
    counts = count(view.tab, [last, 0, last // 2, last // 3, last // 4, last])
    assert max(counts.changes) <= CHANGES, counts.changes
