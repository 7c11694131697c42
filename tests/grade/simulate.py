"""A class of any size, graded and measured: python -m tests.grade.simulate 100 [WORKERS]

Six of ten hand in the solutions, three have one answer, one has none. What is printed last are the
processor seconds of a submission, what a class of 1,000 takes on 2, 16 and 64 cores, and what of it
grading adds to executing the notebook (``overhead.py``). Let the machine do nothing else.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from minisgl_lite.cli import main

from . import overhead
from .submissions import NAME, ROOT, answered, handed_out


def report(number: int, workers: int, wall: float, each: float) -> list[str]:
    """``each``: processor seconds of a submission."""
    return [
        f"{number} submissions, {workers} at a time: {wall:.0f} s; {each:.1f} s of CPU each",
        *(
            f"1,000 on {cores} cores: {1000 * each / cores / 60:.1f} minutes"
            for cores in (2, 16, 64)
        ),
    ]


def simulate(number: int, workers: int) -> list[str]:
    """Grade the class; the lines to print."""
    solution = (ROOT / "solutions" / f"{NAME}.ipynb").read_bytes()
    stub = json.dumps(handed_out()).encode()
    kinds = [solution] * 6 + [answered()] * 3 + [stub]
    with tempfile.TemporaryDirectory() as name, overhead.counted() as seconds:
        folder = Path(name)
        for student in range(number):
            path = folder / "in" / f"student-{student:04}" / f"{NAME}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_bytes(kinds[student % len(kinds)])
        begin, used = time.monotonic(), seconds()
        arguments = [str(folder / "in"), "--assignment", NAME, "--out", str(folder / "out")]
        main(["grade", *arguments, "--workers", str(workers)])
        wall, each = time.monotonic() - begin, (seconds() - used) / number
    return report(number, workers, wall, each)


if __name__ == "__main__":
    print("\n".join(simulate(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2)))
    print("\n".join(overhead.report(overhead.measure(10))))
