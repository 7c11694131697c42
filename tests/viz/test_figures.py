"""Curves of a run: what is drawn is what was measured, and a sentence says it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from minisgl_lite.toy import Toy
from minisgl_lite.trace import Recorder, Trace
from minisgl_lite.trace.measure import hits, pool_use
from minisgl_lite.viz import figures

pytest.importorskip("matplotlib")

FIGURES = (figures.utilisation, figures.fragmentation, figures.hit_rate)


def a_run(**settings: Any) -> Trace:
    toy = Toy(num_pages=32 // settings.get("page_size", 4), **settings)
    with Recorder(toy) as recorder:
        toy.add("the cat sat on the mat", says="and slept .")
        toy.add("a dog <b>barks</b>", says="at it")
        toy.run()
        toy.add("the cat sat on the sofa", says="too .")
        toy.run()
    return recorder.trace()


@pytest.fixture(scope="module")
def runs() -> dict[str, Trace]:
    return {"naive": a_run(cache_type="naive"), "radix": a_run()}


def test_areas_add_up_to_the_pool(runs: dict[str, Trace]) -> None:
    figure = figures.utilisation(runs["radix"])
    [axes] = figure.axes
    uses = pool_use(runs["radix"])
    tops = [max(path.vertices[:, 1]) for area in axes.collections for path in area.get_paths()]
    assert max(tops) == uses[0].total == 32
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["own, with K/V", "tree, held", "tree, evictable", "taken, empty", "free"]


@pytest.mark.parametrize("what", ["utilisation", "fragmentation"])
def test_a_line_per_run_holds_what_was_measured(runs: dict[str, Trace], what: str) -> None:
    figure = getattr(figures, what)(runs)
    lines = figure.axes[0].lines
    assert [line.get_label() for line in lines] == ["naive", "radix"]
    assert len({line.get_linestyle() for line in lines}) == 2, "told apart without colour"
    for line, trace in zip(lines, runs.values(), strict=True):
        uses = pool_use(trace)
        assert list(line.get_xdata()) == [use.turn for use in uses]
        assert list(line.get_ydata()) == [getattr(use, what) for use in uses]


def test_hits_of_one_run_are_bars_and_all_so_far_a_line(runs: dict[str, Trace]) -> None:
    figure = figures.hit_rate(runs["radix"])
    [axes] = figure.axes
    found = hits(runs["radix"])
    assert [bar.get_height() for bar in axes.patches] == [h.matched / h.prompt for h in found]
    assert axes.lines[0].get_ydata()[-1] == sum(h.matched for h in found) / 15


def test_the_sentence_says_what_the_curve_shows(runs: dict[str, Trace]) -> None:
    uses = pool_use(runs["radix"])
    most = max(use.utilisation for use in uses)
    alt = figures.utilisation(runs["radix"]).alt
    assert alt.startswith(f"How full the pool of 32 slots is, over {len(uses)} steps: ")
    assert f"at most {100 * most:.0f}%" in alt
    alt = figures.hit_rate(runs).alt
    assert "naive: 0 of 15 prompt tokens in 3 requests: 0%." in alt
    assert "radix: 4 of 15 prompt tokens in 3 requests: 27%." in alt


@pytest.mark.parametrize("draw", FIGURES)
def test_it_is_shown_as_an_image_with_that_sentence(draw: Any, runs: dict[str, Trace]) -> None:
    figure = draw({"<b>": runs["naive"]})
    shown = figure._repr_html_()
    assert re.match(r'<img alt="[^"<>]*&lt;b&gt;: ', shown)
    assert shown == draw({"<b>": runs["naive"]})._repr_html_(), "the same bytes every time"
    assert len(shown) < 60_000


@pytest.mark.parametrize("draw", FIGURES)
def test_a_run_in_which_nothing_happened_can_be_drawn(draw: Any) -> None:
    with Recorder(Toy()) as recorder:
        pass
    assert draw(recorder.trace()).alt


@pytest.mark.parametrize("draw", FIGURES)
def test_a_mistake_is_told(draw: Any, runs: dict[str, Trace]) -> None:
    for wrong in ({}, None, {"a": "run"}, "run"):
        with pytest.raises(ValueError, match="needs a Trace, or several Traces by name"):
            draw(wrong)
    with pytest.raises(ValueError, match="7 runs are too many"):
        draw({str(i): runs["naive"] for i in range(7)})
