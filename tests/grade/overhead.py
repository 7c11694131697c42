"""What grading adds to executing a notebook: python -m tests.grade.overhead [ROUNDS]

One honest submission, ROUNDS times (10) in turns executed and graded; printed are the medians in
processor seconds, user and system, of all processes, and of the rounds' differences.

*Executed* is as little as a verdict costs: a process with the judge and nbclient, and the kernel,
behind the same walls, with the same package without answers, the same cells and the same checks.
*Graded* is all that the grader does for it: reading what was handed in, the job, nbgrader's
gradebook and the feedback; once with a job that is forked, and once with one that is started anew,
as where the grader can't build namespaces without bubblewrap. What a class costs once, such as
the template that jobs are forked from, is in none of them.

It counts in a control group of its own, for which it needs root; without one it counts all that the
machine does, which should then do nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from minisgl_lite.grade import run, sandbox
from minisgl_lite.grade.course import Course
from minisgl_lite.grade.formgrader import merge
from minisgl_lite.grade.gradebook import feedback_html
from minisgl_lite.grade.intake import Submission
from minisgl_lite.grade.run import Settings, Store, grade_class
from minisgl_lite.grade.versions import present_version

from .submissions import NAME, ROOT

GOAL = 1.5
"""Processor seconds that grading may add."""
SOURCE = ROOT / "solutions" / f"{NAME}.ipynb"
EXECUTE = """
import sys, time
from pathlib import Path
import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from minisgl_lite.grade.course import Course
from minisgl_lite.grade.job import KERNEL, _environment, hidden_seeds
from minisgl_lite.grade.judging import judge_at
from minisgl_lite.teaching.release import public_numbers
folder, runtime, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].split()
judge, connection = runtime / "judge.sock", runtime / "kernel.json"
notebook = nbformat.read(folder / "notebook.ipynb", as_version=4)
with judge_at(judge, names, hidden_seeds(None), public_numbers) as record:
    with _environment(folder, judge, folder / "learner"):
        manager = AsyncKernelManager(
            kernel_name=KERNEL, transport="ipc", connection_file=str(connection)
        )
        NotebookClient(notebook, km=manager, timeout=300, allow_errors=True).execute()
assert {v.status for v in record.verdicts.values()} == {"done"}, record.verdicts
"""


Rounds = Mapping[str, list[float]]
"""Processor seconds of each round, by what was done."""
EXECUTED, FORKED, ANEW = "executed", "graded", "graded, its job started anew"


def report(rounds: Rounds) -> list[str]:
    """The medians, and what grading adds."""
    executed = rounds[EXECUTED]
    middle = f"{statistics.median(executed):.2f}"
    lines = [f"executed: {middle} s of CPU, the median of {len(executed)} rounds"]
    for what, times in rounds.items():
        if what != EXECUTED:
            more = sorted(t - alone for t, alone in zip(times, executed, strict=True))
            lines.append(
                f"{what}: {statistics.median(times):.2f} s, {statistics.median(more):+.2f} s"
                f" ({more[0]:+.2f} to {more[-1]:+.2f}; goal: {GOAL} more at most)"
            )
    return lines


@contextlib.contextmanager
def counted() -> Iterator[Callable[[], float]]:
    """Processor seconds since, of this process and all that it starts.

    bubblewrap does not wait for what it started, so no process is told what a sandbox used; a
    control group is.
    """
    group = _group()
    if group is None:
        begin = machine_seconds()
        yield lambda: machine_seconds() - begin
        return
    before = _of(group)
    try:
        yield lambda: _of(group) - before
    finally:
        (group.parent / "cgroup.procs").write_text(str(os.getpid()))
        with contextlib.suppress(OSError):
            group.rmdir()


def _group() -> Path | None:
    """A new control group with this process in it, below the one where it is."""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            here = Path("/proc/self/cgroup").read_text(encoding="utf-8").split("0::")[-1].split()[0]
            group = Path(place) / here.strip("/") / f"grading-{os.getpid()}"
            try:
                group.mkdir()
                (group / "cgroup.procs").write_text(str(os.getpid()))
            except OSError:
                return None
            return group
    return None


def _of(group: Path) -> float:
    return int((group / "cpu.stat").read_text(encoding="utf-8").split()[1]) / 1e6


def machine_seconds() -> float:
    """Processor time that this machine has worked."""
    user, nice, system, _, _, irq, softirq, *_ = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


class Executing:
    """A folder in which all is prepared for a notebook to be executed alone."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        from minisgl_lite.grade.distribution import write_distribution
        from minisgl_lite.grade.job import _kernelspec
        from minisgl_lite.teaching.checks import EXERCISES, load_exercises

        load_exercises()
        folder.mkdir()
        self.folder, self.names = folder, names
        counterparts = (c for name in names for c in EXERCISES[name].counterparts)
        write_distribution(folder / "learner", counterparts)
        _kernelspec(folder / "jupyter", walls=True)
        (folder / "notebook.ipynb").write_bytes(SOURCE.read_bytes())

    def __call__(self) -> None:
        with tempfile.TemporaryDirectory(prefix="alone-") as name:
            runtime = Path(name) / "kernel-1"
            runtime.mkdir(mode=0o700)
            command = [*sandbox.around_job(runtime), sys.executable, "-c", EXECUTE]
            command += [str(self.folder), str(runtime), " ".join(self.names)]
            environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
            subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)


class NotGraded(Exception):
    """The message is the row's reason."""


class Grading:
    """A class to which one more submission comes each time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.out, self.course = folder, Course.create(folder / "course", [SOURCE])
        self.version = present_version(self.course, [SOURCE])
        self.store = Store(folder / "results")
        self.number = 0

    def __call__(self) -> None:
        self.number += 1
        student = Submission(f"student-{self.number}", {SOURCE.name: SOURCE.read_bytes()})
        rows = grade_class([student], self.version, self.store, Settings(workers=1))
        (row,) = merge(self.out, self.course, NAME, rows)
        if row.result.status != "graded" or not row.result.score:
            raise NotGraded(row.result.reason)
        (self.out / f"{self.number}.html").write_text(feedback_html(row), encoding="utf-8")

    def anew(self) -> None:
        """With a process that is started for the job."""
        run.FORKED = False
        try:
            self()
        finally:
            run.FORKED = True


def measure(rounds: int, tell: Callable[[str], object] = print) -> Rounds:
    """``rounds`` of each, in turns, after one of each that isn't counted; ``tell`` gets each.

    Not counted is a round, too, in which a limit on wall-clock time ended something: the machine
    did something else.
    """
    found: dict[str, list[float]] = {EXECUTED: [], FORKED: [], ANEW: []}
    with tempfile.TemporaryDirectory() as name, counted() as seconds:
        grading = Grading(Path(name) / "class")
        executing = Executing(Path(name) / "alone", grading.course.exercises())
        turns: list[tuple[str, Callable[[], None]]]
        turns = [(EXECUTED, executing), (FORKED, grading), (ANEW, grading.anew)]
        for number in range(2 * rounds + 1):
            this: dict[str, float] = {}
            try:
                for what, do in turns if number % 2 else reversed(turns):
                    before = seconds()
                    do()
                    this[what] = seconds() - before
            except (NotGraded, subprocess.CalledProcessError) as error:
                tell(f"a round that is not counted: {error}")
                continue
            if number:
                tell("; ".join(f"{what}: {this[what]:.2f}" for what in found))
                for what, times in found.items():
                    times.append(this[what])
            if len(found[EXECUTED]) == rounds:
                return found
    raise RuntimeError("this machine is too busy to measure anything.")


def main() -> None:
    parser = argparse.ArgumentParser(description="What grading adds to executing a notebook.")
    parser.add_argument("rounds", type=int, nargs="?", default=10)
    found = measure(parser.parse_args().rounds)
    print("\n".join(report(found)))


if __name__ == "__main__":
    main()
