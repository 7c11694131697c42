"""Exercises are checked here: the learner's code in one process, engine and judge in another.

``check("page-to-token")`` in a notebook starts the judge (``judge.py``), which runs the engine with
the KV sanitizer and calls the learner's function over a pipe whenever the engine needs it; the
kernel answers (``serve.py``). So a wrong answer breaks nothing in the notebook, and the same check
serves a grader who runs strangers' code in a sandbox.
"""

from __future__ import annotations

from .exercise import EXERCISES, PUBLIC, Exercise, Template, Verdict, add, load_exercises
from .learner import Learner, LearnerObject, NotDone, Wrong
from .notebook import NotPassed, check, check_all, hint, show_run, verdict_on

__all__ = [
    "EXERCISES",
    "PUBLIC",
    "Exercise",
    "Learner",
    "LearnerObject",
    "NotDone",
    "NotPassed",
    "Template",
    "Verdict",
    "Wrong",
    "add",
    "check",
    "check_all",
    "hint",
    "load_exercises",
    "show_run",
    "verdict_on",
]
