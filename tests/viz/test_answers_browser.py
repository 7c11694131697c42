"""Predict and Why in Chromium, from a file: asked before it is shown, judged by Python."""

from __future__ import annotations

import re
from typing import Any

import pytest

from minisgl_lite.toy import Toy
from minisgl_lite.trace import Trace
from minisgl_lite.viz import show

from .decisions import turns
from .opened import Opened
from .pages import page
from .runs import busy_run, crowded_run, overlapped_run
from .test_browser import Kernel

pytestmark = pytest.mark.browser
pytest.importorskip("anywidget")

MARKS = ("right", "missing", "wrong", "chosen")
REGION = ".kvv-sr[aria-live=polite]"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return busy_run()


def switch_on(view: Opened) -> None:
    view.tab.click("button:text-is('Predict')")
    view.settle()


def asks(view: Opened) -> str:
    return view.text(".kvv-asks")


def field(view: Opened, name: str) -> Any:
    return view.tab.locator(".kvv-predict label", has_text=name).locator("input")


def press(view: Opened, button: str) -> None:
    view.tab.click(f".kvv-predict button:text-is('{button}')")
    view.settle()
    view.settle()


def verdict(view: Opened) -> list[str]:
    """What was said of each answer, then the notes with their signs."""
    notes = view.tab.locator(".kvv-verdict li").all_inner_texts()
    return [asks(view), *(re.sub(r"\s+", " ", note).strip() for note in notes)]


def marks(view: Opened) -> dict[str, int]:
    counts = {name: view.tab.locator(f".kvv-mark-{name}").count() for name in MARKS}
    return {name: count for name, count in counts.items() if count}


def written_in(trace: Trace, turn: int) -> dict[str, Any]:
    """What Python says of the batch of a turn."""
    return next(t for t in turns(trace) if trace.frames[t["at"]]["turn"] == turn)


def cell_at(view: Opened, slot: int) -> tuple[float, float]:
    """The middle of a slot's cell, found by the keyboard."""
    view.tab.focus('.kvv-panel-pool [role="gridcell"][tabindex="0"]')
    for key in ["PageUp"] * 4 + ["Home"] + ["ArrowRight"] * slot:
        view.tab.keyboard.press(key)
    cell = view.tab.locator('.kvv-panel-pool [role="gridcell"][tabindex="0"]')
    assert cell.get_attribute("aria-label").startswith(f"slot {slot},")
    box = cell.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def click_slots(view: Opened, slots: list[int]) -> None:
    places = [cell_at(view, slot) for slot in slots]
    view.tab.locator(".kvv-asks").hover()
    for x, y in places:
        view.tab.mouse.click(x, y)
    view.settle()


# ---- recorded --------------------------------------------------------------------------------


def test_a_step_is_held_until_it_is_predicted_by_clicks(open_view: Any, trace: Trace) -> None:
    before = trace.find("allocate:r1#2")
    wanted = written_in(trace, trace.frames[before]["turn"])
    view = open_view(trace, start=before - 1)
    switch_on(view)
    view.next()
    assert view.frame() == before - 1, "nothing is shown before the answer"
    assert asks(view) == "Step 4, decode of r1, r3: which slots are written?"
    click_slots(view, wanted["slots"])
    assert marks(view) == {"chosen": len(wanted["slots"])}
    assert field(view, "Slots").input_value() == "15–16"
    view.tab.fill(".kvv-predict label:has-text('Pages') input", str(wanted["pages"]))
    press(view, "Check")
    assert view.frame() == before
    assert marks(view) == {"right": len(wanted["slots"])}
    assert verdict(view)[0] == "Slots: right, these and no others. Pages taken: 1, right."
    assert view.text(".kvv-score") == "Questions right first time: 2 of 2"
    press(view, "Go on")
    assert view.frame() == before + 1, "the next sub-step, and no second question in it"
    assert not view.faults, view.faults


def test_a_wrong_answer_is_marked_and_each_wrong_cell_explained(
    open_view: Any, trace: Trace
) -> None:
    before = trace.find("allocate:r1#2")
    view = open_view(trace, start=before - 1)
    switch_on(view)
    view.next()
    click_slots(view, [9, 14, 15])
    press(view, "Check")
    assert verdict(view) == [
        "Slots: 1 of 2 right, 1 missing, 2 wrong.",
        "✕ wrong: Slot 9: page start 8 is number 4 in free_slots, and this step takes only its"
        " head: 16.",
        "✕ wrong: Slot 14 holds r3’s position 4 already: K/V are written once, then only read.",
        "+ missing: Slot 16: r1’s position 6 goes to a new page, start 16, from the head of"
        " free_slots.",
    ]
    assert marks(view) == {"right": 1, "missing": 1, "wrong": 2}
    looks = view.tab.evaluate(
        "() => ['right', 'missing', 'wrong'].map((name) => {"
        " const style = getComputedStyle(document.querySelector(`.kvv-mark-${name}`));"
        " const sign = getComputedStyle(document.querySelector(`.kvv-mark-${name}`), '::after');"
        " return [style.outlineStyle, sign.content, style.outlineColor]; })"
    )
    assert len({tuple(look[:2]) for look in looks}) == 3, "line and sign differ, not colour alone"
    for slot, mark in ((9, "wrong"), (14, "wrong"), (15, "right"), (16, "missing")):
        cell_at(view, slot)
        assert view.active("pool").endswith(f", {mark}")
    assert view.text(".kvv-score") == "Questions right first time: 0 of 1"
    region = view.text(REGION)
    assert region.startswith("Slots: 1 of 2 right") and "page start 8 is number 4" in region
    # The marks stay while the step's slots are prepared and written, and go with the step.
    view.tab.focus(".kvv-slider")
    for shown in (True, True, False):
        view.tab.keyboard.press("ArrowRight")
        view.settle()
        assert bool(marks(view)) == shown, view.frame()
    assert not view.faults, view.faults


@pytest.mark.parametrize("make", [busy_run, overlapped_run])
def test_a_whole_run_is_predicted_by_keyboard_alone(open_view: Any, make: Any) -> None:
    trace = make()
    by_turn = {trace.frames[t["at"]]["turn"]: t for t in turns(trace)}
    view = open_view(trace)
    keys = view.tab.keyboard
    view.tab.focus("button:text-is('Predict')")
    keys.press("Enter")
    view.tab.focus(".kvv-slider")
    answered = 0
    for _ in range(3 * len(trace)):
        if view.frame() == len(trace) - 1:
            break
        keys.press("ArrowRight")
        view.settle()
        if view.tab.locator(".kvv-check").count() == 0:
            continue
        ahead = trace.frames[view.frame() + 1]
        turn = by_turn.get(ahead["turn"])
        keys.press("ArrowRight")  # not past the question: to its field
        assert view.tab.evaluate("document.activeElement.closest('.kvv-predict') !== null")
        for label in view.tab.locator(".kvv-predict label").all_inner_texts():
            name = label.strip()
            if name == "Slots":
                text = ", ".join(map(str, turn["slots"]))
            elif name == "Pages taken":
                text = str(turn["pages"])
            elif name == "Page starts":
                text = ", ".join(map(str, turn["evicted"]))
            else:
                uid = int(name.removeprefix("Hit of r"))
                entry = next(e for e in ahead["admit"] if e["uid"] == uid)
                text = str(entry["matched"])
            keys.type(text)
            keys.press("Tab")
            answered += 1
        keys.press("Enter")  # on Check
        view.settle()
        view.settle()
        assert view.tab.evaluate("document.activeElement.textContent") == "Go on"
        assert not re.search(r"missing|wrong|not \d", verdict(view)[0]), verdict(view)
        view.tab.focus(".kvv-slider")
    assert view.frame() == len(trace) - 1
    assert answered >= 2 * len(by_turn), "slots and pages of each step, and hits and evictions"
    assert view.text(".kvv-score") == f"Questions right first time: {answered} of {answered}"
    assert view.tab.locator("[aria-live], [role=status], output").count() == 1
    assert not view.faults, view.faults


def test_pages_are_predicted_for_an_eviction(open_view: Any, trace: Trace) -> None:
    at = trace.find("evict")
    view = open_view(trace, start=at - 1)
    switch_on(view)
    view.next()
    assert asks(view) == "Which pages are evicted?"
    tree = view.tab.locator(".kvv-panel-tree")
    assert tree.is_visible() and "evicted next" not in tree.inner_text(), "it is what is asked"
    click_slots(view, [13])
    assert marks(view) == {"chosen": 2}, "a slot means its whole page"
    assert field(view, "Page starts").input_value() == "12"
    press(view, "Check")
    assert verdict(view)[0] == "Page starts: 0 of 1 right, 1 missing, 1 wrong."
    assert "stays: it had children until now" in verdict(view)[1]
    assert "longest ago" in verdict(view)[2]
    assert marks(view) == {"missing": 2, "wrong": 2}
    press(view, "Go on")
    assert asks(view).startswith("Step 6, prefill of r4"), "the next question of the same step"


def test_the_score_counts_first_answers_and_outlives_a_reload(open_view: Any, trace: Trace) -> None:
    at = trace.find("hit:r3")
    view = open_view(trace, start=at - 1)
    switch_on(view)
    for typed, said in (("3", "r3’s hit: 2, not 3."), ("2", "r3’s hit: 2, right.")):
        view.next()
        field(view, "Hit of r3").fill(typed)
        press(view, "Check")
        assert verdict(view)[0] == said
        assert view.text(".kvv-score") == "Questions right first time: 0 of 1"
        view.go(at - 2)
        view.next()
    view.tab.reload()
    view.tab.wait_for_function("window.ready !== undefined")
    switch_on(view)
    assert view.text(".kvv-score") == "Questions right first time: 0 of 1"


def test_it_can_be_shown_without_an_answer(open_view: Any, trace: Trace) -> None:
    before = trace.find("allocate:r1#2")
    view = open_view(trace, start=before - 1)
    switch_on(view)
    view.next()
    press(view, "Show me")
    assert view.frame() == before
    assert verdict(view)[0] == "Shown, not counted."
    assert "goes to a new page" in " ".join(verdict(view))
    assert marks(view) == {"right": 2}
    assert view.text(".kvv-score") == ""


def test_what_is_no_answer_is_said(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, start=trace.find("allocate:r1#2") - 1)
    switch_on(view)
    view.next()
    for slots, pages, said in (
        ("", "", "Choose cells or type a number first."),
        ("5, x", "", "“x” is none: slots are numbers from 0 to 21, as in 5, 8–11."),
        ("22", "", "“22” is none"),
        ("15", "two", "“two” is no number."),
    ):
        field(view, "Slots").fill(slots)
        field(view, "Pages").fill(pages)
        press(view, "Check")
        assert view.text(".kvv-hint").startswith(said)
        assert view.text(REGION).startswith(said)
    assert view.tab.locator(".kvv-score").inner_text() == ""


def test_only_steps_are_held_and_going_elsewhere_drops_the_question(
    open_view: Any, trace: Trace
) -> None:
    view = open_view(trace)
    switch_on(view)
    view.go(len(trace) - 1)
    assert view.frame() == len(trace) - 1, "the slider is not held"
    view.tab.click("[aria-label='First sub-step']")
    view.settle()
    view.tab.focus(".kvv-slider")
    view.tab.keyboard.press("PageDown")
    view.settle()
    assert view.frame() == 1 and view.tab.locator(".kvv-check").count() == 1
    view.tab.keyboard.press("Home")
    view.settle()
    assert view.tab.locator(".kvv-check").count() == 0
    assert asks(view).startswith("Step on")
    switch_on(view)  # off again
    view.tab.keyboard.press("PageDown")
    view.tab.focus(".kvv-slider")
    view.tab.keyboard.press("PageDown")
    view.settle()
    assert view.frame() > 1 and view.tab.locator(".kvv-predict").is_hidden()


def test_playing_stops_at_a_question(open_view: Any, trace: Trace) -> None:
    view = open_view(trace)
    switch_on(view)
    view.tab.click(".kvv-play")
    view.tab.wait_for_selector(".kvv-check")
    assert view.tab.locator(".kvv-play").get_attribute("aria-label") == "Play"
    view.tab.wait_for_timeout(1200)
    assert view.frame() == trace.find("allocate") - 1


def test_cells_too_small_to_click_are_typed_on_a_phone(open_view: Any) -> None:
    trace = crowded_run()
    before = trace.find("allocate#2")
    wanted = written_in(trace, trace.frames[before]["turn"])
    view = open_view(trace, size=(390, 844), has_touch=True, start=before - 1)
    switch_on(view)
    view.next()
    assert view.text(".kvv-panel:not([hidden]) .kvv-name") == "KV pool"
    field(view, "Slots").fill(", ".join(map(str, wanted["slots"])))
    field(view, "Pages").fill(str(wanted["pages"]))
    cell = view.tab.locator('.kvv-panel-pool [role="gridcell"][tabindex="0"]').bounding_box()
    assert cell["height"] < 24
    press(view, "Check")
    assert verdict(view)[0].startswith("Slots: right")
    assert view.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    sizes = view.tab.evaluate(
        "() => [...document.querySelectorAll('.kvv-predict button, .kvv-predict input')]"
        ".map((e) => [e.offsetWidth, e.offsetHeight])"
    )
    assert min(min(size) for size in sizes) >= 24
    assert not view.faults, view.faults


@pytest.mark.parametrize("size", [(390, 844), (720, 900), (1280, 900)])
def test_frames_do_not_jump_while_it_asks(
    open_view: Any, trace: Trace, size: tuple[int, int]
) -> None:
    view = open_view(trace, size=size, panels=["requests", "page_table", "pool", "tree"])
    switch_on(view)
    heights = set()
    for _ in range(2 * len(trace)):
        view.next()
        heights.add(view.tab.locator(".kvv-tabs").bounding_box()["y"])
        if view.tab.locator(".kvv-check").count():
            press(view, "Show me")
            heights.add(view.tab.locator(".kvv-tabs").bounding_box()["y"])
        if view.frame() == len(trace) - 1:
            break
    assert len(heights) == 1


# ---- live ------------------------------------------------------------------------------------


def test_a_live_run_asks_before_it_shows_and_goes_on_afterwards(
    chromium: Any, tmp_path: Any
) -> None:
    toy = Toy(page_size=4, num_pages=8)
    toy.add("the cat sat on", says="the mat . and slept")
    widget = show(toy)
    path = tmp_path / "live.html"
    path.write_text(page(widget, static=False), encoding="utf-8")
    tab = chromium.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(path.as_uri())
    tab.wait_for_function("window.ready !== undefined")
    view = Opened(tab, None)  # type: ignore[arg-type]
    kernel = Kernel(view, widget)
    assert kernel.serve() == ["history"]
    switch_on(view)
    tab.click("button:text-is('Run')")
    seen = []
    while True:
        kernel.serve_until(
            lambda: tab.locator(".kvv-check").count() or "Idle" in view.text(".kvv-status")
        )
        if not tab.locator(".kvv-check").count():
            break
        trace = widget._history.trace
        ahead = trace.frames[view.frame() + 1 if seen or view.frame() else 1]
        turn = next(t for t in turns(trace) if trace.frames[t["at"]]["turn"] == ahead["turn"])
        assert ahead["turn"] == trace.frames[-1]["turn"], "the turn was run whole"
        assert kernel.serve() == [], "and the next is not asked for meanwhile"
        seen.append((ahead["turn"], ahead["sub"]))
        field(view, "Slots").fill(", ".join(map(str, turn["slots"])))
        field(view, "Pages").fill(str(turn["pages"]))
        press(view, "Check")
        assert verdict(view)[0].startswith("Slots: right"), verdict(view)
        tab.focus(".kvv-predict button:text-is('Go on')")
        tab.keyboard.press("Enter")
    assert [turn for turn, _ in seen] == [1, 2, 3, 4, 5]
    assert all(sub == 0 for turn, sub in seen if turn > 1), "before the turn's first sub-step"
    last = len(widget._history.trace) - 1
    tab.wait_for_function("(n) => document.querySelector('.kvv-slider').value == n", arg=last)
    view.settle()
    assert view.text(".kvv-state") == "done"
    tab.close()


def test_a_live_run_that_waits_for_an_answer_goes_on_without_predict(
    chromium: Any, tmp_path: Any
) -> None:
    toy = Toy(page_size=4, num_pages=8)
    toy.add("the cat sat on", says="the mat . and slept")
    widget = show(toy)
    path = tmp_path / "live.html"
    path.write_text(page(widget, static=False), encoding="utf-8")
    tab = chromium.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab.goto(path.as_uri())
    tab.wait_for_function("window.ready !== undefined")
    view = Opened(tab, None)  # type: ignore[arg-type]
    kernel = Kernel(view, widget)
    kernel.serve()
    switch_on(view)
    tab.click("button:text-is('Run')")
    kernel.serve_until(lambda: tab.locator(".kvv-check").count() > 0)
    view.settle()  # the question stands there a frame before the picture that it is about
    held = view.frame()
    tab.wait_for_timeout(400)
    assert (kernel.serve(), view.frame()) == ([], held)
    tab.click("[aria-label='First sub-step']")  # the reader looks elsewhere: the run pauses
    view.settle()
    assert tab.locator(".kvv-check").count() == 0
    kernel.serve_until(lambda: "Paused" in view.text(".kvv-status"))
    tab.click("button:text-is('Run')")
    kernel.serve_until(lambda: tab.locator(".kvv-check").count() > 0)
    switch_on(view)  # off
    kernel.serve_until(lambda: "Idle" in view.text(".kvv-status"))
    last = len(widget._history.trace) - 1
    tab.wait_for_function("(n) => document.querySelector('.kvv-slider').value == n", arg=last)
    tab.close()


# ---- why -------------------------------------------------------------------------------------


def why(view: Opened) -> list[str]:
    return [line.strip() for line in view.tab.locator(".kvv-why :is(b, li, p)").all_inner_texts()]


def test_why_says_who_is_evicted_and_who_is_not(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, panels=["why", "pool"], start="evict")
    assert why(view)[0] == "Why is this node evicted?"
    assert any("stays: it is locked by r1" in line for line in why(view))
    assert view.tab.locator(".kvv-tab[data-news]").all_inner_texts() == ["Why?"]
    view.tab.click("button:text-is('Next answer')")
    view.settle()
    assert view.frame() == trace.find("allocate:r4#2")
    assert why(view)[0] == "Why is 1 page taken?"
    view.next()
    assert why(view) == ["Nothing was decided in this sub-step."]
    assert view.tab.locator(".kvv-tab[data-news]").count() == 0
    view.tab.click("button:text-is('Previous answer')")
    view.settle()
    assert view.frame() == trace.find("allocate:r4#2")
    assert not view.faults, view.faults


def test_why_follows_the_pinned_slot(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, panels=["why", "pool"], start="hit:r3")
    cell_at(view, 0)
    view.tab.keyboard.press("Enter")
    view.settle()
    assert "Why is slot 0 what it is?" in why(view)
    held = [line for line in why(view) if line.startswith("The node is locked")]
    assert held == ["The node is locked 2 times, by r1, r3: it stays as long as one of them lives."]


@pytest.mark.parametrize("size", [(390, 844), (720, 900), (1280, 900)])
def test_why_takes_the_same_room_in_every_frame(
    open_view: Any, trace: Trace, size: tuple[int, int]
) -> None:
    view = open_view(trace, size=size, panels=["why", "pool"])
    heights = set()
    for index in range(len(trace)):
        view.go(index)
        heights.add(view.tab.locator(".kvv").bounding_box()["height"])
    assert len(heights) == 1
    assert view.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
