"""A class of any size, graded and measured: python -m tests.grade.simulate 100

Six of ten hand in the solutions, three have one answer, one has none. What is printed last are the
processor seconds of a submission and what a class of 1,000 takes of them on 2, 16 and 64 cores.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from minisgl_lite.cli import main

from .submissions import NAME, ROOT, answered, handed_out


def seconds() -> float:
    """Processor time of this process and of all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def simulate(number: int, workers: int) -> None:
    solution = (ROOT / "solutions" / f"{NAME}.ipynb").read_bytes()
    kinds = [solution] * 6 + [answered()] * 3 + [json.dumps(handed_out()).encode()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for student in range(number):
            path = folder / "in" / f"student-{student:04}" / f"{NAME}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_bytes(kinds[student % len(kinds)])
        begin, used = time.monotonic(), seconds()
        arguments = [str(folder / "in"), "--assignment", NAME, "--out", str(folder / "out")]
        main(["grade", *arguments, "--workers", str(workers)])
        wall, each = time.monotonic() - begin, (seconds() - used) / number
    print(f"{number} submissions, {workers} at a time: {wall:.0f} s; {each:.1f} s of CPU each")
    for cores in (2, 16, 64):
        print(f"1,000 on {cores} cores: {1000 * each / cores / 60:.1f} minutes")


if __name__ == "__main__":
    simulate(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2)
