"""Two runs side by side in Chromium: their numbers and their differences are Python's."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from minisgl_lite.toy import Toy
from minisgl_lite.trace import Recorder, Trace
from minisgl_lite.viz import compare

from .opened import Opened
from .pairs import differing_slots, pairs

pytestmark = pytest.mark.browser
pytest.importorskip("anywidget")

LABELS = ("naive", "radix")


@pytest.fixture(scope="module")
def pair() -> tuple[Trace, Trace]:
    return pairs()["naive | radix"]


def frames(view: Opened, pair: tuple[Trace, Trace]) -> list[int]:
    """Where each run stands, from the words at its head."""
    found = []
    for side, trace in enumerate(pair):
        words = view.tab.locator(".kvv-sidehead").nth(side).locator("span").last.inner_text()
        match = re.match(r"step (\d+)/\d+ · (\d+)/", words)
        assert match
        turn, sub = int(match[1]), int(match[2]) - 1
        at = [(f["turn"], f["sub"]) for f in trace.frames]
        found.append(at.index((turn, sub)) if turn else -1)
    return found


def slot_name(view: Opened, side: int, slot: int) -> str:
    """The accessible name of a slot's cell in the pool."""
    grid = view.tab.locator(".kvv-panel-pool .kvv-grid").nth(side)
    grid.locator('[role="gridcell"][tabindex="0"]').focus()
    view.tab.keyboard.press("Control+Home")
    view.tab.keyboard.press("Home")
    while True:
        name = grid.locator('[role="gridcell"][tabindex="0"]').get_attribute("aria-label")
        at = int(re.match(r"slot (\d+)", name)[1])  # type: ignore[index]
        if at == slot:
            return name
        view.tab.keyboard.press("ArrowRight" if at < slot else "ArrowLeft")


def said(view: Opened) -> str:
    return view.text(".kvv-unlike")


@pytest.mark.parametrize("by", ["step", "event"])
@pytest.mark.parametrize("name", ["naive | radix", "another token", "overlap off | on"])
def test_it_opens_at_the_first_stop_that_shows_a_difference(
    open_view: Any, name: str, by: str
) -> None:
    pair = pairs()[name]
    view = open_view(compare(*pair, labels=("a", "b"), by=by))
    slider = view.tab.locator(".kvv-slider")
    first = int(slider.input_value())
    assert said(view).startswith("The first difference. ")
    assert view.tab.locator(".kvv-first").get_attribute("aria-pressed") == "true"
    for stop in range(first):
        view.go(stop)
        assert said(view) == "Here a and b do not differ.", stop
    view.go(int(slider.get_attribute("max")))
    view.tab.click(".kvv-first")
    view.settle()
    assert int(slider.input_value()) == first
    assert "Here a | b differ: " in said(view)
    assert not view.faults, view.faults


def test_the_first_difference_says_whether_output_tokens_differ(open_view: Any, pair: Any) -> None:
    view = open_view(compare(*pair, labels=LABELS))
    difference = pair[0].compare(pair[1])
    assert frames(view, pair) == [difference.left_frame, difference.right_frame]
    assert said(view) == (
        "The first difference. All output tokens agree."
        " Here naive | radix differ: r1 handle_len 0 | 6; 6 slots of the pool; tree nodes 0 | 1."
    )
    view = open_view(compare(*pairs()["another token"], labels=LABELS))
    assert said(view).startswith(
        "The first difference. Of the output tokens, r1’s number 1 is the first to differ:"
        " “␣slept” in naive, “␣ate” in radix. "
    )


@pytest.mark.parametrize("name", ["naive | radix", "P = 1 | 4", "overlap off | on"])
def test_numbers_and_marks_are_python_s_at_random_stops(open_view: Any, name: str) -> None:
    pair = pairs()[name]
    view = open_view(compare(*pair, labels=("a", "b"), by="event"))
    rng = random.Random(4)
    last = int(view.tab.locator(".kvv-slider").get_attribute("max"))
    for stop in rng.sample(range(last + 1), 6):
        view.go(stop)
        at = frames(view, pair)
        states = [trace.state_at(i) for trace, i in zip(pair, at, strict=True)]
        for side, state in enumerate(states):
            balance = state.balance()
            note = view.tab.locator(".kvv-panel-pool .kvv-note").nth(2 * side).inner_text()
            assert note == (
                f"free {balance.free} + tree {balance.tree} + in flight {balance.in_flight}"
                f" = {balance.total} slots"
            )
        wanted = differing_slots(*states)
        count = re.search(r"(\d+) slots? of the pool", said(view))
        assert (int(count[1]) if count else 0) == len(wanted)
        slot, side = rng.randrange(32), rng.randrange(2)
        name_of = slot_name(view, side, slot)
        assert (", differs: in " in name_of) == (slot in wanted), name_of


def test_marks_are_seen_in_the_cells(open_view: Any, pair: Any) -> None:
    """The corner of slot 0 has the mark's colour where it differs, in both runs."""
    view = open_view(compare(*pair, labels=LABELS))
    corner = """(side) => {
        const canvas = document.querySelectorAll('.kvv-panel-pool canvas')[side];
        const [r, g, b] = canvas.getContext('2d').getImageData(6, 6, 1, 1).data;
        return [r, g, b]; }"""
    assert [view.tab.evaluate(corner, side) for side in (0, 1)] == [[192, 38, 211]] * 2
    view.go(0)
    for side in (0, 1):
        assert view.tab.evaluate(corner, side) != [192, 38, 211]


def test_by_step_both_are_in_one_step_and_by_event_at_one_event(open_view: Any) -> None:
    pair = pairs()["overlap off | on"]
    view = open_view(compare(*pair, labels=("off", "on")))
    view.go(12)
    left, right = (t.frames[i]["turn"] for t, i in zip(pair, frames(view, pair), strict=True))
    assert left == right
    view.tab.select_option(".kvv-ways select", "event")
    view.settle()
    at = frames(view, pair)
    assert pair[0].frames[at[0]]["turn"] == left, "the first run stays where it was"
    view.go(int(view.tab.locator(".kvv-slider").get_attribute("max")) - 1)
    at = frames(view, pair)
    assert pair[0].frames[at[0]]["phase"] == pair[1].frames[at[1]]["phase"]
    assert pair[0].frames[at[0]]["turn"] < pair[1].frames[at[1]]["turn"]


def test_a_pinned_token_is_pinned_in_both_runs(open_view: Any, pair: Any) -> None:
    start = pair[0].find("forward:r3")
    view = open_view(compare(*pair, labels=LABELS, start=start))
    at = frames(view, pair)
    states = [trace.state_at(i) for trace, i in zip(pair, at, strict=True)]
    slots = [state.row(state.reqs[3])[3] for state in states]
    assert slots[0] != slots[1], "one token in two places"
    slot_name(view, 0, slots[0])
    view.tab.keyboard.press("Enter")
    view.settle()
    for side in (0, 1):
        words = view.tab.locator(".kvv-selected .kvv-sum").nth(side).inner_text()
        assert words.startswith(f"slot {slots[side]},")


def test_keys_move_both_and_the_move_is_spoken(open_view: Any, pair: Any) -> None:
    view = open_view(compare(*pair, labels=LABELS, start="start"))
    view.tab.focus(".kvv-slider")
    for _ in range(3):
        view.tab.keyboard.press("ArrowRight")
    view.settle()
    assert frames(view, pair) == [3, 3]
    view.tab.wait_for_timeout(300)
    assert view.text(".kvv-sr") == said(view) == "Here naive and radix do not differ."


@pytest.mark.parametrize(("width", "columns"), [(390, 1), (720, 2), (1280, 2)])
def test_runs_stand_side_by_side_or_on_a_phone_one_below_the_other(
    open_view: Any, pair: Any, width: int, columns: int
) -> None:
    view = open_view(compare(*pair, labels=LABELS), size=(width, 900))
    boxes = [view.tab.locator(".kvv-panel-requests").nth(side).bounding_box() for side in (0, 1)]
    assert (boxes[0]["y"] == boxes[1]["y"]) == (columns == 2)
    page_width = view.tab.evaluate("document.documentElement.scrollWidth")
    assert page_width <= width, "nothing is wider than the page"


def test_equal_runs_say_so(open_view: Any, pair: Any) -> None:
    view = open_view(compare(pair[0], pair[0], labels=("one", "two")))
    assert said(view) == "Here one and two do not differ."
    assert view.tab.locator(".kvv-first").is_disabled()
    assert view.text(".kvv-first") == "No difference"


def test_the_table_of_the_step_has_both_runs(open_view: Any, pair: Any) -> None:
    view = open_view(compare(*pair, labels=LABELS), forced_colors="active")
    view.settle()
    assert view.tab.locator(".kvv-whose").all_inner_texts() == list(LABELS)
    assert view.tab.locator(".kvv-tables table").count() == 4


def test_a_side_before_its_first_frame_shows_no_empty_phase(open_view: Any) -> None:
    def record(*prompts: str) -> Trace:
        toy = Toy(page_size=2, num_pages=10)
        with Recorder(toy) as recorder:
            for prompt in prompts:
                toy.add(prompt, says="d e")
            toy.run()
        return recorder.trace()

    view = open_view(compare(record("a b c"), record(), labels=("a", "b")))
    view.next()
    phases = view.tab.locator(".kvv-side .kvv-phase")
    assert [phases.nth(side).is_visible() for side in (0, 1)] == [True, False]
