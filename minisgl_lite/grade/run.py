"""A whole class: one job per submission on any pool of workers, each result written at once.

The pool is threads that start processes here, or a Dask cluster that is given bytes and gives
bytes. Whatever happens to a job, its student has a result; and the results, not the order in which
they came, make the gradebook.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import minisgl_lite

from ..utils import require
from . import sandbox
from .intake import Submission, Unreadable, put_in_order
from .job import Result

GRACE = 60.0
"""Seconds beyond its time after which a job is ended from outside."""


@dataclass(frozen=True)
class Settings:
    """How a class is graded. ``seconds``: wall clock for one submission."""

    secret: bytes | None = None
    walls: bool = True
    seconds: float = 600.0
    cell_seconds: int = 60
    workers: int = 2
    scheduler: str | None = None
    per_student: bool = False


@dataclass
class Row:
    """One student and what came of their submission."""

    student: str
    result: Result
    digest: str = ""


class Store:
    """Results on disk, one file each, whole or not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, student: str) -> Path:
        # A name of 200 characters in another script is no file name everywhere; its digest is.
        return self.folder / f"{hashlib.sha256(student.encode()).hexdigest()[:24]}.json"

    def write(self, row: Row) -> None:
        """Raises OSError when the disk is full; what was there before stays."""
        path = self._path(row.student)
        scratch = path.with_suffix(".part")
        data = {"student": row.student, "digest": row.digest, "result": row.result.to_json()}
        with scratch.open("w", encoding="utf-8") as file:
            json.dump(data, file, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)

    def read(self, student: str) -> Row | None:
        """The student's result, or None if there is none that can be read."""
        try:
            data = json.loads(self._path(student).read_text(encoding="utf-8"))
            return Row(data["student"], Result.from_json(data["result"]), data["digest"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def grade_class(
    submissions: Sequence[Submission],
    course: Path,
    released: dict[str, Any],
    store: Store,
    settings: Settings,
    *,
    resume: bool = False,
    progress: Callable[[Iterable[Any], int], Iterable[Any]] = lambda jobs, total: jobs,
) -> list[Row]:
    """Grade all of them and return a row for each, in their order.

    ``course``: nbgrader's folder, as ``Course.create`` made it; ``released``: the handed-out
    notebooks by file name. ``resume``: what ``store`` has from the same input is kept.

    After Ctrl-C running jobs are ended, and what is done stays in ``store``.
    """
    packed = pack_course(course)
    asked = _versions() + json.dumps(released, sort_keys=True).encode()
    rows: dict[str, Row] = {}
    waiting: list[tuple[str, str, bytes]] = []
    for submission in submissions:
        request, refused = _request(submission, released, settings)
        digest = hashlib.sha256(asked + request).hexdigest()[:32]
        known = store.read(submission.student) if resume else None
        if known is not None and known.digest == digest and known.result.status == "graded":
            rows[submission.student] = known
        elif refused:
            result = Result("error", flags=submission.flags, reason=refused)
            rows[submission.student] = Row(submission.student, result, digest)
            store.write(rows[submission.student])
        else:
            waiting.append((submission.student, digest, request))
    flags = {submission.student: submission.flags for submission in submissions}
    for student, digest, result in progress(_results(packed, waiting, settings), len(waiting)):
        result.flags = [*flags[student], *result.flags]
        rows[student] = Row(student, result, digest)
        store.write(rows[student])
    return [rows[submission.student] for submission in submissions]


def _request(
    submission: Submission, released: dict[str, Any], settings: Settings
) -> tuple[bytes, str]:
    """What a job is given, and why it can't be, if it can't."""
    if submission.problem:
        return b"", submission.problem
    notebooks: dict[str, str] = {}
    for name, content in submission.notebooks.items():
        try:
            ordered, flags = put_in_order(content, released[name])
        except Unreadable as error:
            submission.flags.append(f"{name} could not be read: {error}")
            continue
        submission.flags += [f"{name}: {flag}" for flag in flags]
        notebooks[name] = base64.b64encode(ordered).decode()
    if not notebooks:
        return b"", "; ".join(submission.flags) or "there is no notebook"
    request = {
        "notebooks": notebooks,
        "secret": settings.secret.hex() if settings.secret else None,
        "student": submission.student if settings.per_student else "",
        "walls": settings.walls,
        "cell_seconds": settings.cell_seconds,
    }
    return json.dumps(request, sort_keys=True).encode(), ""


def _versions() -> bytes:
    """What else a result depends on."""
    digest = hashlib.sha256()
    root = Path(minisgl_lite.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.digest()


def pack_course(course: Path) -> bytes:
    """The course folder as bytes, the same for the same content: what travels to a worker."""
    files = {
        path.relative_to(course).as_posix(): base64.b64encode(path.read_bytes()).decode()
        for path in sorted(course.rglob("*"))
        if path.is_file()
    }
    return json.dumps(files, sort_keys=True).encode()


def run_job(course: bytes, request: bytes, seconds: float) -> str:
    """Grade one submission in a process of its own; its result as JSON, whatever happens.

    A worker elsewhere runs this: bytes in, text out.
    """
    with tempfile.TemporaryDirectory(prefix="job-") as name:
        folder = Path(name)
        for path, content in json.loads(course).items():
            target = folder / "course" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(base64.b64decode(content))
        (folder / "request.json").write_bytes(request)
        (folder / "kernel-1").mkdir(mode=0o700)
        names = ("course", "request.json", "result.json", "kernel-1")
        arguments = [str(folder / name) for name in names] + [str(seconds)]
        outside = sandbox.around_job(folder / "kernel-1") if not sandbox.missing() else []
        (folder / "log").touch(mode=0o600)  # the kernel inherits it, and must not read it
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*outside, sys.executable, "-m", "minisgl_lite.grade.job", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(folder), "PYTHONUTF8": "1"},
            )
            try:
                # The job itself minds its time, and keeps what it has; this is for one that hangs.
                status = process.wait(seconds + GRACE)
            except subprocess.TimeoutExpired:
                return Result("timeout", reason=f"not done within {seconds:g} seconds").to_json()
            finally:
                _end(process)
        if (folder / "result.json").is_file():
            return (folder / "result.json").read_text(encoding="utf-8")
        return _failed(status, (folder / "log").read_bytes()).to_json()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a job and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _failed(status: int, log: bytes) -> Result:
    number = -status if status < 0 else status - 128  # bubblewrap tells it as a shell does
    if number in list(signal.Signals):
        return Result("killed", reason=f"its job was ended by {signal.Signals(number).name}")
    lines = log.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
    return Result("error", reason=f"the grader failed: {lines[-1][:300]}")


def _results(
    course: bytes, waiting: list[tuple[str, str, bytes]], settings: Settings
) -> Iterator[tuple[str, str, Result]]:
    """(student, digest, result) as jobs end."""
    pool = _DaskPool(settings.scheduler) if settings.scheduler else _ThreadPool(settings.workers)
    with pool:
        for (student, digest), text in pool.results(course, waiting, settings.seconds):
            yield student, digest, _read_result(text)


def _read_result(text: str | Exception) -> Result:
    if isinstance(text, OSError):
        return Result("error", reason=f"its job could not be run: {text.strerror or text}")
    if isinstance(text, Exception):
        return Result("killed", reason=f"its worker was lost: {type(text).__name__}")
    try:
        return Result.from_json(text)
    except (ValueError, KeyError, TypeError):
        return Result("error", reason="its job gave no result that can be read")


class _ThreadPool:
    """Jobs on this machine: a thread waits for each process."""

    def __init__(self, workers: int) -> None:
        self.executor = ThreadPoolExecutor(workers)

    def results(
        self, course: bytes, waiting: list[tuple[str, str, bytes]], seconds: float
    ) -> Iterator[tuple[tuple[str, str], str | Exception]]:
        jobs: dict[Future[str], tuple[str, str]] = {
            self.executor.submit(run_job, course, request, seconds): (student, digest)
            for student, digest, request in waiting
        }
        for job in as_completed(jobs):
            yield jobs[job], job.exception() or job.result()  # type: ignore[misc]

    def __enter__(self) -> _ThreadPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.executor.shutdown(cancel_futures=True)


class _DaskPool:
    """The same jobs on a running cluster: no file system is shared, lost workers' jobs run anew."""

    def __init__(self, address: str) -> None:
        self.distributed: Any = require("distributed", extra="grade")
        self.client = self.distributed.Client(address, timeout=20)

    def results(
        self, course: bytes, waiting: list[tuple[str, str, bytes]], seconds: float
    ) -> Iterator[tuple[tuple[str, str], str | Exception]]:
        shared = self.client.scatter(course, broadcast=True, hash=False)
        jobs = {
            self.client.submit(run_job, shared, request, seconds, pure=False, retries=1): (
                student,
                digest,
            )
            for student, digest, request in waiting
        }
        for job in self.distributed.as_completed(jobs):
            yield jobs[job], job.exception() or job.result()

    def __enter__(self) -> _DaskPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.client.close()


def without_submission(student: str) -> Row:
    """The row of somebody on the roster who handed in nothing."""
    return Row(student, Result("error", reason="nothing was handed in"))


__all__ = [
    "Row",
    "Settings",
    "Store",
    "grade_class",
    "pack_course",
    "run_job",
    "without_submission",
]
