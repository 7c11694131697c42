"""The same jobs on a Dask cluster of two workers on this machine, one of which is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minisgl_lite.cli import main
from minisgl_lite.grade import sandbox

from .submissions import six, write

pytestmark = [
    pytest.mark.grading,
    pytest.mark.skipif(bool(sandbox.missing()), reason="no sandbox here"),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler's address and its two workers, each a process with a folder of its own."""
    distributed: Any = pytest.importorskip("distributed")
    address_file = tmp_path / "scheduler.json"
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port",
         "0", "--no-dashboard", "--no-show", "--scheduler-file", str(address_file)],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for _ in range(300):
        if address_file.exists():
            break
        time.sleep(0.1)
    workers = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        workers.append(
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "distributed.cli.dask_worker",
                    "--scheduler-file",
                    str(address_file),
                    "--nthreads",
                    "1",
                    "--no-nanny",
                    "--no-dashboard",
                    "--local-directory",
                    str(tmp_path / name),
                    "--name",
                    name,
                ],
                stderr=subprocess.DEVNULL,
                cwd=tmp_path / name,
            )
        )
    with distributed.Client(scheduler_file=str(address_file)) as client:
        client.wait_for_workers(2, timeout=60)
        address = client.scheduler.address
    yield address, workers
    for process in (*workers, scheduler):
        process.kill()
        process.wait()


def test_a_lost_workers_jobs_are_done_again(
    tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, workers = cluster
    cases = six()
    write(tmp_path / "in", cases)
    options = ["--assignment", "pages-and-slots"]
    here, there = tmp_path / "here", tmp_path / "there"
    # The second worker goes when the first results are there: it has a job at hand.
    killer = subprocess.Popen(
        [sys.executable, "-c", f"""
import os, pathlib, time
folder = pathlib.Path({str(there / "results")!r})
while len(list(folder.glob("*.json"))) < 2:
    time.sleep(0.1)
os.kill({workers[1].pid}, {int(signal.SIGKILL)})
"""]
    )  # fmt: skip
    arguments = [str(tmp_path / "in"), *options, "--scheduler", address, "--out", str(there)]
    assert main(["grade", *arguments]) == 1
    assert killer.wait(10) == 0 and workers[1].wait(10) == -signal.SIGKILL
    assert main(["grade", str(tmp_path / "in"), *options, "--out", str(here)]) == 1
    assert (here / "gradebook.csv").read_bytes() == (there / "gradebook.csv").read_bytes()
    assert os.listdir(there / "feedback") == os.listdir(here / "feedback")
