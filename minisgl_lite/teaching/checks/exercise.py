"""What an exercise is, and the list of them all."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...utils import Registry
from .learner import Learner

if TYPE_CHECKING:
    from ...trace import Trace


class Verdict(NamedTuple):
    """How a check ended. ``text`` is one sentence; ``misconception`` a tag such as ``m02``."""

    name: str
    status: Literal["done", "wrong", "not done yet", "error"]
    text: str = ""
    misconception: str | None = None

    def line(self) -> str:
        """The one line that a student reads; the released notebook stores ``done: NAME``."""
        return f"{self.status}: {self.name}" + (f": {self.text}" if self.text else "")


@dataclass(frozen=True)
class Template:
    """A task made from drawn numbers: the same question for everybody, or one each.

    Args:
        draw: the numbers of one task. It draws again until the task has exactly one answer.
        text: the task in words (MyST), with these numbers.
        solve: the right answer, from a real run of the engine where it can be.
        run: the run that a *find* task asks about, as ``show_run`` shows it.
    """

    draw: Callable[[random.Random], dict[str, Any]]
    text: Callable[[dict[str, Any]], str]
    solve: Callable[[dict[str, Any]], Any]
    run: Callable[[dict[str, Any]], Trace] | None = None

    def task(self, numbers: str) -> dict[str, Any]:
        """The numbers that a token stands for: ``public``, or one that a course drew."""
        return self.draw(random.Random(f"minisgl-lite {numbers}"))


PUBLIC = "public"
"""The token of the numbers in the committed exercises."""


@dataclass(frozen=True)
class Exercise:
    """One task with its check.

    Args:
        name: lower-case with hyphens; unique, and never used again. Its cells are
            ``<name>-text``, ``<name>-answer`` and ``<name>-check``.
        answer: what the learner's notebook must define; an explanation defines nothing, and has its
            own name here.
        check: runs the learner's answer and raises ``Wrong`` with the first difference. It gets
            numbers to draw from; each check runs once with fixed ones and once with fresh ones.
        mutates: positions of the arguments that the answer is to change in place.
        counterparts: ``"module:Class.method"`` of the package's own answers, withheld meanwhile.
        hints: three, each telling more than the one before.
        difficulty: 1 to 3. ``minutes``: expected. ``misconceptions``: tags that it attacks.
        page: slug of the page of the book that teaches it.
        template: where its numbers are drawn; then ``check`` draws none of its own.
        scene: a short run with the answer in the engine, to be looked at (``lockstep.play``).
    """

    name: str
    kind: Literal["build", "find", "explain", "predict"]
    answer: str
    objective: str
    difficulty: int
    minutes: int
    points: int
    page: str
    misconceptions: tuple[str, ...]
    hints: tuple[str, str, str]
    check: Callable[[Learner, random.Random], None] | None = None
    template: Template | None = None
    mutates: tuple[int, ...] = ()
    counterparts: tuple[str, ...] = ()
    scene: Callable[[Learner], tuple[Trace, str | None]] | None = None

    def __post_init__(self) -> None:
        if not self.name.replace("-", "").isalnum() or self.name != self.name.lower():
            raise ValueError(f"exercise name {self.name!r}: lower-case letters, digits, hyphens.")
        if not 1 <= self.difficulty <= 3 or self.points < 0 or self.minutes < 1:
            raise ValueError(f"{self.name}: difficulty is 1 to 3, points and minutes are positive.")
        if self.kind == "predict" and (self.template is None or self.check is not None):
            raise ValueError(f"{self.name}: a prediction has a template and no check of its own.")
        if self.kind == "explain" and (self.template is not None or self.check is not None):
            raise ValueError(f"{self.name}: an explanation is read by a person, not checked.")
        if self.kind in ("build", "find") and self.template is None and self.check is None:
            raise ValueError(f"{self.name}: it has neither a check nor a template.")


EXERCISES: Registry[Exercise] = Registry("exercise")
"""All exercises by name; ``load_exercises`` fills it."""


def add(exercise: Exercise) -> Exercise:
    """Put an exercise on the list."""
    EXERCISES.register(exercise.name)(exercise)
    return exercise


def load_exercises() -> Registry[Exercise]:
    """The list of all exercises, each from its module in ``minisgl_lite/teaching/exercises``."""
    import importlib
    import pkgutil

    from .. import exercises

    for module in pkgutil.iter_modules(exercises.__path__):
        importlib.import_module(f"{exercises.__name__}.{module.name}")
    return EXERCISES
