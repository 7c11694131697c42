"""Right answers pass, wrong ones don't: for each exercise, built in at least two and five ways.

One module here per exercise, by its name: ``RIGHT``, a list of answers, the reference first and
others built differently; ``WRONG``, plausible wrong answers with words that the verdict must have.
Where an answer is more than one name, ``namespace`` makes the notebook's names from it.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

import psutil
import pytest

from minisgl_lite.teaching.checks import EXERCISES, load_exercises, notebook, verdict_on

load_exercises()
CODED = [
    name
    for name in EXERCISES.supported_names()
    if EXERCISES[name].kind in ("build", "find") and EXERCISES[name].points
]


def answers(name: str) -> Any:
    return importlib.import_module(f"tests.teaching.exercises.{name.replace('-', '_')}")


def names_of(name: str, answer: Any) -> dict[str, Any]:
    """What the learner's notebook defines."""
    make = getattr(answers(name), "namespace", None)
    return {EXERCISES[name].answer: answer} if make is None else make(answer)


CASES = [(name, answer) for name in CODED for answer in answers(name).RIGHT]
MISTAKES = [(name, *item) for name in CODED for item in answers(name).WRONG.items()]


def seconds() -> float:
    """Processor time of this process, which answers, and of the judge's, which asks."""
    assert notebook._judge._process is not None
    used = psutil.Process(notebook._judge._process.pid).cpu_times()
    return time.process_time() + float(used.user + used.system)


def label(value: Any) -> str:
    return getattr(value, "__name__", str(value)[:40])


@pytest.mark.parametrize("name", CODED)
def test_an_exercise_has_two_right_and_five_wrong_answers(name: str) -> None:
    assert len(answers(name).RIGHT) >= 2 and len(answers(name).WRONG) >= 5


@pytest.mark.parametrize(("name", "answer"), CASES, ids=label)
def test_a_right_answer_is_done_in_time(name: str, answer: Any) -> None:
    verdict_on(name, {})  # starts the judge
    began = seconds()
    assert verdict_on(name, names_of(name, answer)).line() == f"done: {name}"
    # One waits for the other, so that this is how long it takes where nothing else runs.
    assert seconds() - began < 10


@pytest.mark.parametrize(("name", "answer", "words"), MISTAKES, ids=label)
def test_a_wrong_answer_hears_what_differs(name: str, answer: Any, words: str) -> None:
    verdict = verdict_on(name, names_of(name, answer))
    assert verdict.status == "wrong"
    assert words in verdict.text and "\n" not in verdict.line()


@pytest.mark.parametrize("name", [name for name in CODED if EXERCISES[name].scene is not None])
def test_a_right_answer_can_be_seen_at_work(name: str) -> None:
    for answer in answers(name).RIGHT:
        verdict, trace = notebook._judge.scene(name, names_of(name, answer))
        assert verdict.line() == f"done: {name}" and len(trace["frames"]) > 20


def stub(*args: Any) -> Any:
    raise NotImplementedError


@pytest.mark.parametrize("name", CODED)
def test_the_stub_is_not_done_yet(name: str) -> None:
    assert verdict_on(name, names_of(name, stub)).line() == f"not done yet: {name}"
