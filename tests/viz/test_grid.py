"""Runs to choose from: all of them in one text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minisgl_lite.toy import Toy
from minisgl_lite.trace import TraceError
from minisgl_lite.viz import Variants, show, variants
from minisgl_lite.viz.grid import labelled, opening

from .grids import PROMPTS, chapter_grid
from .runs import overlapped_run

pytest.importorskip("anywidget")


@pytest.fixture(scope="module")
def grid() -> Variants:
    return chapter_grid()


def test_each_combination_is_recorded_once(grid: Variants) -> None:
    assert len(grid) == 30
    found = set()
    for page_size in (1, 2, 4, 8, 16):
        for cache in ("naive", "radix"):
            for name in PROMPTS:
                trace = grid.get(page_size=page_size, cache_type=cache, prompts=name)
                assert (trace.meta["page_size"], trace.meta["cache_type"]) == (page_size, cache)
                found.add(trace.digest())
    assert len(found) == 30


def test_each_request_of_each_run_is_answered_as_told(grid: Variants) -> None:
    for (name, told), cache in zip(PROMPTS.items(), ("naive", "radix", "radix"), strict=True):
        trace = grid.get(page_size=4, cache_type=cache, prompts=name)
        state = trace.state_at(len(trace) - 1)
        for req, (_, answer) in zip(state.reqs.values(), told, strict=True):
            words = [trace.token_text(token).strip() for token in req.ids[req.input_len :]]
            assert words == answer.split()


def test_the_grid_travels_in_one_small_text(grid: Variants) -> None:
    text = show(grid).trace
    assert text == grid.to_widget()
    assert len(text) <= 60_000
    assert len(text) < sum(len(trace.to_widget()) for trace in grid.traces) / 3, "they share"


def test_the_text_gives_back_the_same_runs(grid: Variants) -> None:
    again = Variants.from_widget(grid.to_widget())
    assert again.axes == grid.axes
    assert [trace.digest() for trace in again.traces] == [t.digest() for t in grid.traces]
    assert again.traces[7].frames == grid.traces[7].frames


def test_it_opens_at_the_variant_and_event_it_is_told(grid: Variants) -> None:
    chosen = {"page_size": 4, "cache_type": "radix"}
    options = json.loads(show(grid, variant=chosen, start="admit:r2").options)
    assert options["variant"] == [2, 1, 0]
    assert options["start"] == grid.get(**chosen).find("admit:r2")


def test_the_run_that_a_view_opens_with_is_found(grid: Variants) -> None:
    widget = show(grid, variant={"page_size": 8})
    assert (
        opening(widget.trace, json.loads(widget.options)).digest() == grid.get(page_size=8).digest()
    )
    run = overlapped_run()
    assert opening(show(run).trace, json.loads(show(run).options)).digest() == run.digest()


def test_runs_by_name_are_a_grid_of_one_axis() -> None:
    run = overlapped_run()
    widget = show({"radix": run, "again": run}, variant={"run": "again"})
    assert json.loads(widget.options)["variant"] == [1]
    assert Variants.from_widget(widget.trace).axes == {"run": ("radix", "again")}


def test_a_run_with_a_course_of_its_own_may_be_a_trace() -> None:
    run = overlapped_run()
    assert variants(lambda loop: run, loop=("overlap",)).traces == (run,)


def test_without_scripts_the_chosen_variant_stands_there(grid: Variants) -> None:
    still = show(grid, variant={"page_size": 16})._repr_mimebundle_()[0]["text/html"]
    assert still.count("<svg") == 1


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({}, "something to choose"),
        ({"page_size": ()}, "page_size needs values"),
        ({"page_size": (4, 4)}, "page_size needs values, each once"),
    ],
)
def test_axes_need_values(axes: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        variants(lambda **_: Toy(), **axes)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"page_size": 3}, "page_size 3 is not one of: 1, 2, 4, 8, 16"),
        ({"size": 4}, "size is not one of: page_size, cache_type, prompts"),
    ],
)
def test_an_unknown_choice_is_told(grid: Variants, chosen: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        show(grid, variant=chosen)


def test_other_mistakes_are_told() -> None:
    with pytest.raises(ValueError, match="make\\(\\) should return a Toy or a Trace, not int"):
        variants(lambda page_size: page_size, page_size=(1,))  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="Traces by name, not str"):
        labelled({"a": "run"})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="Traces by name, not none"):
        show({})
    with pytest.raises(ValueError, match="nothing to choose"):
        show(overlapped_run(), variant={"page_size": 4})


def test_a_text_that_is_none_is_told(grid: Variants) -> None:
    for text, words in (("?", "cut short"), (overlapped_run().to_widget(), "is not minisgl-lite")):
        with pytest.raises(TraceError, match=words):
            Variants.from_widget(text)
    with pytest.raises(TraceError, match="cut short"):
        Variants.from_widget(grid.to_widget()[:500])
