"""What the measured class, and the measured submission, say at their ends."""

from __future__ import annotations

import subprocess
import sys

from . import overhead
from .simulate import report


def test_a_measured_class_says_what_a_thousand_would_take() -> None:
    assert report(100, 2, 380.0, 7.5) == [
        "100 submissions, 2 at a time: 380 s; 7.5 s of CPU each",
        "1,000 on 2 cores: 62.5 minutes",
        "1,000 on 16 cores: 7.8 minutes",
        "1,000 on 64 cores: 2.0 minutes",
    ]


def test_what_grading_adds_is_the_median_of_the_rounds_differences() -> None:
    rounds = {
        overhead.EXECUTED: [6.0, 9.0, 7.0],  # the machine is slower in the second round
        overhead.FORKED: [7.0, 10.5, 7.5],
        overhead.ANEW: [9.0, 12.0, 9.5],
    }
    assert overhead.report(rounds) == [
        "executed: 7.00 s of CPU, the median of 3 rounds",
        "graded: 7.50 s, +1.00 s (+0.50 to +1.50; goal: 1.5 more at most)",
        "graded, its job started anew: 9.50 s, +3.00 s (+2.50 to +3.00; goal: 1.5 more at most)",
    ]


WORKS = "import time\nwhile time.process_time() < 0.5: pass"


def test_processor_time_is_counted_of_what_nobody_waits_for() -> None:
    """As of bubblewrap's children: a grandchild goes on when its parent has ended."""
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WORKS!r}])"
    with overhead.counted() as seconds:
        command = [sys.executable, "-c", code]
        # The pipe that the grandchild holds, too, is closed when it ends.
        subprocess.run(command, check=True, stdout=subprocess.PIPE)
        assert seconds() > 0.5
