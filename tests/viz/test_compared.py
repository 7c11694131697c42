"""Two runs in one widget: what Python puts into it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minisgl_lite.trace import Trace
from minisgl_lite.viz import compare

from .pairs import FIXTURE, fixture, pairs

pytest.importorskip("anywidget")


@pytest.fixture(scope="module")
def pair() -> tuple[Trace, Trace]:
    return pairs()["naive | radix"]


def test_the_fixture_of_node_s_tests_is_what_the_engine_does_now() -> None:
    assert FIXTURE.read_text(encoding="utf-8") == fixture(), (
        "python -m tests.viz.pairs writes it anew"
    )


def test_both_traces_travel_as_text(pair: tuple[Trace, Trace]) -> None:
    widget = compare(*pair, labels=("naive", "radix"))
    assert Trace.from_widget(widget.trace).digest() == pair[0].digest()
    assert Trace.from_widget(widget.other).digest() == pair[1].digest()
    assert json.loads(widget.options)["labels"] == ["naive", "radix"]


def test_it_opens_where_it_is_told_to(pair: tuple[Trace, Trace]) -> None:
    options = json.loads(compare(*pair, start="admit:r2", by="event", panels=["tree"]).options)
    assert options["start"] == pair[0].find("admit:r2")
    assert (options["by"], options["panels"]) == ("event", ["tree"])
    assert "start" not in json.loads(compare(*pair).options), "the view finds the difference"


def test_without_scripts_both_runs_stand_where_they_first_differ(pair: tuple[Trace, Trace]) -> None:
    still = compare(*pair, labels=("<a>", "b"))._repr_mimebundle_()[0]["text/html"]
    assert still.count("<svg") == 2
    assert "&lt;a&gt;" in still and "<a>" not in still
    assert "[0, 6) goes into the tree" in still


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": ("a", "a")}, "not two different names"),
        ({"labels": "ab"}, "not two different names"),
        ({"by": "turn"}, "by 'turn' is not one of: step, event"),
        ({"panels": ["cache"]}, "is not a list of"),
        ({"start": 999}, "is not a frame of this run"),
    ],
)
def test_a_mistake_is_told(pair: tuple[Trace, Trace], options: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compare(*pair, **options)


def test_only_traces_are_compared(pair: tuple[Trace, Trace]) -> None:
    with pytest.raises(ValueError, match="two Traces, not str"):
        compare(pair[0], "radix")  # type: ignore[arg-type]
