"""Choosing among recorded runs in Chromium: at once, without a kernel, and at the same event."""

from __future__ import annotations

import random
from typing import Any

import pytest

from minisgl_lite.toy import Toy
from minisgl_lite.trace import Recorder
from minisgl_lite.viz import Variants, show

from .grids import PROMPTS, chapter_grid
from .opened import Opened

pytestmark = pytest.mark.browser
pytest.importorskip("anywidget")


@pytest.fixture(scope="module")
def grid() -> Variants:
    return chapter_grid()


def slide(view: Opened, to: int) -> None:
    """Move the page size's slider to its value number ``to``."""
    view.tab.evaluate(
        "(i) => { const s = document.querySelector('.kvv-axis'); s.value = i;"
        " s.dispatchEvent(new Event('input', { bubbles: true })); }",
        to,
    )
    view.settle()


def choose(view: Opened, label: str, value: str) -> None:
    view.tab.get_by_label(label, exact=True).select_option(label=value)
    view.settle()


def test_each_choice_shows_its_run(open_view: Any, grid: Variants) -> None:
    view = open_view(grid, panels=["pool", "page_table", "tree", "release", "free_slots"])
    rng = random.Random(17)
    sizes = grid.axes["page_size"]
    for _ in range(12):
        size = rng.randrange(5)
        cache, prompts = rng.choice(("naive", "radix")), rng.choice(list(PROMPTS))
        slide(view, size)
        choose(view, "prefix cache", cache)
        choose(view, "prompts", prompts)
        trace = grid.get(page_size=sizes[size], cache_type=cache, prompts=prompts)
        assert f"P = {sizes[size]}, {64 // int(sizes[size])} pages, {cache}" in view.text(
            ".kvv-title"
        )
        assert view.tab.locator(".kvv-slider").get_attribute("max") == str(len(trace) - 1)
        view.go(rng.randrange(len(trace)))
        balance = trace.state_at(view.frame()).balance()
        assert view.text(".kvv-panel-pool .kvv-note") == (
            f"free {balance.free} + tree {balance.tree} + in flight {balance.in_flight}"
            f" = {balance.total} slots"
        )
    assert not view.faults, view.faults


def test_the_position_is_kept_by_event(open_view: Any, grid: Variants) -> None:
    chosen = {"page_size": 1, "cache_type": "radix", "prompts": "alike"}
    start = grid.get(**chosen).find("token:r1:2")
    view = open_view(grid, variant=chosen, start=start)
    for i, size in enumerate(grid.axes["page_size"]):
        slide(view, i)
        trace = grid.get(**chosen | {"page_size": size})
        assert view.frame() == trace.find("token:r1:2")
    slide(view, 0)
    assert view.frame() == start


def test_an_event_that_a_variant_lacks_is_found_again_when_coming_back(
    open_view: Any, grid: Variants
) -> None:
    chosen = {"page_size": 1, "cache_type": "radix", "prompts": "alike"}
    trace = grid.get(**chosen)
    other = grid.get(**chosen | {"page_size": 16})
    lacks = [i for i, f in enumerate(trace.frames) if f["phase"] == "allocate"][-1]
    assert not any(f["phase"] == "allocate" for f in other.frames[6:])
    view = open_view(grid, variant=chosen, start=lacks)
    slide(view, 4)
    assert view.frame() > 0
    slide(view, 0)
    assert view.frame() == lacks


def test_what_a_panel_showed_of_another_run_is_gone(open_view: Any, grid: Variants) -> None:
    """The release panel remembers the frame that it has drawn."""
    start = grid.get(cache_type="naive").find("release:r1")
    view = open_view(grid, panels=["release"], variant={"cache_type": "naive"}, start=start)
    assert "registered" not in view.text(".kvv-release")
    choose(view, "prefix cache", "radix")
    assert "newly registered" in view.text(".kvv-release")


def test_choosing_by_keyboard_leaves_the_timeline_alone(open_view: Any, grid: Variants) -> None:
    view = open_view(grid, start=3)
    view.tab.focus(".kvv-axis")
    view.tab.keyboard.press("ArrowRight")
    view.settle()
    assert view.text(".kvv-value") == "2"
    assert "P = 2" in view.text(".kvv-title")
    assert view.tab.locator(".kvv-axis").get_attribute("aria-valuetext") == "2"
    view.tab.wait_for_timeout(300)
    assert view.text(".kvv-sr").endswith(view.text(".kvv-words")), "the new picture is spoken"


def test_runs_by_name_are_chosen_from_a_list(open_view: Any, grid: Variants) -> None:
    runs = {f"{cache} cache": grid.get(cache_type=cache) for cache in ("naive", "radix")}
    view = open_view(show(runs))
    choose(view, "run", "radix cache")
    assert "radix" in view.text(".kvv-title")


@pytest.mark.parametrize("width", [320, 390, 720, 1280])
def test_the_choices_fit(open_view: Any, grid: Variants, width: int) -> None:
    view = open_view(grid, size=(width, 900))
    assert view.tab.evaluate("document.documentElement.scrollWidth") <= width
    for node in view.tab.locator(".kvv-variants input, .kvv-variants select").all():
        assert node.bounding_box()["height"] >= 24


def test_the_place_has_room_in_each_run(open_view: Any) -> None:
    """Of two runs with as many frames, one has a step of two digits."""
    runs = {}
    for page_size, tokens in ((2, 9), (8, 10)):
        toy = Toy(page_size=page_size, num_pages=64 // page_size)
        with Recorder(toy) as recorder:
            toy.add("a b c", says="x y z " * 6, max_tokens=tokens)
            toy.run()
        runs[f"P = {page_size}"] = recorder.trace()
    assert len({len(trace) for trace in runs.values()}) == 1
    assert [trace.frames[-1]["turn"] for trace in runs.values()] == [9, 10]
    view = open_view(runs, panels=["requests"])
    view.tab.locator(".kvv-variants select").select_option(index=1)
    view.tab.focus(".kvv-slider")
    view.tab.keyboard.press("End")
    view.settle()
    assert view.text(".kvv-step") == "step 10/10 · 4/4"
    over = "(node) => { const range = document.createRange(); range.selectNodeContents(node);"
    over += " return range.getBoundingClientRect().width - node.getBoundingClientRect().width; }"
    assert view.tab.locator(".kvv-step").evaluate(over) <= 1
