"""A class of any size, graded and measured: python -m tests.grade.simulate 100

Six of ten hand in the solutions, three have one answer, one has none. What is printed last are the
processor seconds of a submission, what of them grading adds to executing the notebook, and what a
class of 1,000 takes on 2, 16 and 64 cores. All that the machine does meanwhile is counted: let it
do nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from minisgl_lite.cli import main

from .submissions import NAME, ROOT, answered, handed_out

GOAL = 1.5
"""Processor seconds that grading may add."""
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=300, allow_errors=True, kernel_name="python3").execute()
"""


def seconds() -> float:
    """Processor time that this machine has worked.

    bubblewrap does not wait for what it started, so no process is told what a sandbox used.
    """
    user, nice, system, _, _, irq, softirq, *_ = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def executing(content: bytes) -> float:
    """Processor seconds of running a notebook as a student does: kernel, cells, their checks."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / f"{NAME}.ipynb"
        path.write_bytes(content)
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        before = seconds()
        command = [sys.executable, "-c", EXECUTE, str(path)]
        subprocess.run(command, check=True, env=environment, cwd=ROOT)
        return seconds() - before


def report(number: int, workers: int, wall: float, each: float, alone: float) -> list[str]:
    """``each``, ``alone``: processor seconds of a submission, graded and merely executed."""
    return [
        f"{number} submissions, {workers} at a time: {wall:.0f} s; {each:.1f} s of CPU each",
        f"executing the notebook alone: {alone:.1f} s; grading adds {each - alone:.1f} s"
        f" (goal: {GOAL} at most)",
        *(
            f"1,000 on {cores} cores: {1000 * each / cores / 60:.1f} minutes"
            for cores in (2, 16, 64)
        ),
    ]


def simulate(number: int, workers: int) -> None:
    solution = (ROOT / "solutions" / f"{NAME}.ipynb").read_bytes()
    stub = json.dumps(handed_out()).encode()
    kinds = [solution] * 6 + [answered()] * 3 + [stub]
    handed_in = [kinds[student % len(kinds)] for student in range(number)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for student, content in enumerate(handed_in):
            path = folder / "in" / f"student-{student:04}" / f"{NAME}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_bytes(content)
        begin, used = time.monotonic(), seconds()
        arguments = [str(folder / "in"), "--assignment", NAME, "--out", str(folder / "out")]
        main(["grade", *arguments, "--workers", str(workers)])
        wall, each = time.monotonic() - begin, (seconds() - used) / number
    once = {content: executing(content) for content in dict.fromkeys(handed_in)}
    alone = sum(once[content] for content in handed_in) / number
    print("\n".join(report(number, workers, wall, each, alone)))


if __name__ == "__main__":
    simulate(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2)
