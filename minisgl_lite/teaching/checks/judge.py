"""Reaches the verdict, in a process of its own: engine, sanitizer and comparison are all here.

The learner's code runs at the other end of a pipe (``serve.py``): in the notebook's kernel, or in
the sandbox of a grader. ``python -m minisgl_lite.teaching.checks.judge`` takes names of exercises
as lines on its standard input, ``{"check": NAME, "seeds": [0, 17], "numbers": "public"}``, and
answers each with calls of the learner's code and, in the end, ``{"verdict": {...}}``. A line
``{"scene": NAME}`` is answered in the same way, with a ``"trace"`` beside the verdict.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from typing import IO, Any, Literal

from .exercise import EXERCISES, PUBLIC, Exercise, Verdict, load_exercises
from .expect import prediction
from .learner import CHECK_SECONDS, Gone, Learner, Link, NotDone, Wrong
from .serve import CALL_SECONDS
from .wire import MAX_LINE, WireError, parse, send

PRINTED = "; what your code prints is held back meanwhile: call it yourself to see that"


def judge(
    exercise: Exercise,
    link: Link,
    seeds: Sequence[int],
    *,
    numbers: str = PUBLIC,
    seconds: float = CHECK_SECONDS,
    call_seconds: float = CALL_SECONDS,
) -> Verdict:
    """Check the learner's answer with each seed; the first that goes wrong decides.

    A task from a template is checked once, with the numbers that the token ``numbers`` stands for.
    """
    if exercise.kind == "explain":
        return Verdict(exercise.name, "not done yet", "a person reads this one, no check does")
    link.begin(exercise.counterparts, seconds, call_seconds)
    learner = Learner(link, exercise.answer, mutates=exercise.mutates)
    try:
        if exercise.template is not None:
            right = exercise.template.solve(exercise.template.task(numbers))
            prediction(learner.value(), right, exercise)
        if exercise.check is not None:
            for seed in seeds:
                exercise.check(learner, random.Random(seed))
            learner.repeat_first_calls()
    except NotDone:
        return Verdict(exercise.name, "not done yet")
    except Wrong as wrong:
        text = f"{wrong}{PRINTED}" if link.printed else str(wrong)
        return Verdict(exercise.name, "wrong", text, wrong.misconception)
    except (Gone, WireError) as gone:
        return Verdict(exercise.name, "error", str(gone))
    return Verdict(exercise.name, "done")


def scene(exercise: Exercise, link: Link) -> tuple[Verdict, dict[str, Any] | None]:
    """A run with the learner's answer in the engine, as ``Trace.to_dict`` has it.

    The verdict is of that run alone; there is no run where the stub stands.
    """
    assert exercise.scene is not None
    link.begin(exercise.counterparts, CHECK_SECONDS, CALL_SECONDS)
    try:
        trace, text = exercise.scene(Learner(link, exercise.answer, mutates=exercise.mutates))
    except NotDone:
        return Verdict(exercise.name, "not done yet"), None
    except Wrong as wrong:
        return Verdict(exercise.name, "wrong", str(wrong), wrong.misconception), None
    except (Gone, WireError) as gone:
        return Verdict(exercise.name, "error", str(gone)), None
    status: Literal["done", "wrong"] = "done" if text is None else "wrong"
    return Verdict(exercise.name, status, text or ""), trace.to_dict(wall=False)


def main() -> int:
    """Serve the process's standard streams until they close."""
    incoming, outgoing = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints goes to the log, never between two messages
    load_exercises()
    _serve(incoming, outgoing)
    return 0


def _serve(incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    link = Link(incoming, outgoing)
    while line := incoming.readline(MAX_LINE):
        request = parse(line)
        if "scene" in request:
            seen, trace = scene(EXERCISES[str(request["scene"])], link)
            send(outgoing, {"verdict": seen._asdict(), "trace": trace})
            continue
        name = str(request["check"])
        if name not in EXERCISES.supported_names():
            verdict = Verdict(name, "error", f"there is no exercise {name!r}")
        else:
            seeds = [int(seed) for seed in request["seeds"]]
            verdict = judge(EXERCISES[name], link, seeds, numbers=str(request["numbers"]))
        send(outgoing, {"verdict": verdict._asdict()})


if __name__ == "__main__":
    sys.exit(main())
