"""What the measured class says at its end."""

from __future__ import annotations

from .simulate import report


def test_a_measured_class_says_what_grading_adds_and_what_a_thousand_would_take() -> None:
    assert report(100, 2, 380.0, 7.5, 6.25) == [
        "100 submissions, 2 at a time: 380 s; 7.5 s of CPU each",
        "executing the notebook alone: 6.2 s; grading adds 1.2 s (goal: 1.5 at most)",
        "1,000 on 2 cores: 62.5 minutes",
        "1,000 on 16 cores: 7.8 minutes",
        "1,000 on 64 cores: 2.0 minutes",
    ]
