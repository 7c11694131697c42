"""A whole class: one job per submission on any pool of workers, each result written at once.

The pool is threads that start processes here, or a Dask cluster that is given bytes and gives
bytes. Whatever happens to a job, its student has a result; and the results, not the order in which
they came, make the gradebook.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..teaching.release import public_numbers, secret_numbers
from ..utils import require
from . import sandbox
from .forking import Forked, Started, Template
from .intake import Submission, Unreadable, order, parse, shown_in
from .job import Cell, Result
from .judging import HIDDEN
from .places import without_places
from .versions import PACKAGE, Version, fitting

JOB = [sys.executable, "-m", "minisgl_lite.grade.job"]
FORKED = True
"""Whether jobs are forked (``forking.py``) where they can be."""
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


ORIGINS = {
    "submission": "the submission changed",
    "assignment": "another version of the assignment",
    "package": "another version of the checks or the engine",
    "secret": "another course secret",
    "walls": "with a sandbox before or now, and not both times",
}
"""What a result depends on, and what to say of one that is not as it was."""


@dataclass
class Row:
    """One student and what came of their submission.

    ``origin``: fingerprints of all that the result depends on (``ORIGINS``).
    """

    student: str
    result: Result
    origin: dict[str, str] = field(default_factory=dict)


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
        data = asdict(row) | {"result": row.result.to_json()}
        try:
            with scratch.open("w", encoding="utf-8") as file:
                json.dump(data, file, ensure_ascii=False, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, path)
        finally:
            with contextlib.suppress(OSError):
                scratch.unlink(missing_ok=True)

    def read(self, student: str) -> Row | None:
        """The student's result, or None if there is none that can be read."""
        try:
            data = json.loads(self._path(student).read_text(encoding="utf-8"))
            return Row(data["student"], Result.from_json(data["result"]), data["origin"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def grade_class(
    submissions: Sequence[Submission],
    present: Version,
    store: Store,
    settings: Settings,
    *,
    older: Sequence[Version] = (),
    resume: bool = False,
    progress: Callable[[Iterable[Any], int], Iterable[Any]] = lambda jobs, total: jobs,
) -> list[Row]:
    """Grade all of them and return a row for each, in their order.

    ``present``: the assignment as it is now; ``older``: versions that were handed out before and
    are installed. ``resume``: what ``store`` has from the same input is kept.

    After Ctrl-C running jobs are ended, and what is done stays in ``store``.
    """
    desk = _Desk([present, *older], settings)
    rows: dict[str, Row] = {}
    waiting: list[_Job] = []
    origins: dict[str, dict[str, str]] = {}
    for submission in submissions:
        student = submission.student
        number, request, refused = desk.request(submission)
        origins[student] = desk.origins[number] | {"submission": _print(request)}
        known = store.read(student) if resume else None
        if known is not None and known.origin == origins[student] and _done(known):
            rows[student] = known
        elif refused:
            result = Result("error", flags=_few(submission.flags), reason=refused)
            rows[student] = Row(student, result, origins[student])
            store.write(rows[student])
        else:
            waiting.append(_Job(student, number, request))
    by_name = {submission.student: submission for submission in submissions}
    with contextlib.closing(_results(desk.packed, waiting, settings)) as results:
        for student, result in progress(results, len(waiting)):
            own = by_name[student]
            result.flags = _few([*own.flags, *result.flags, *_shown_in_vain(own.shown, result)])
            rows[student] = Row(student, result, origins[student])
            store.write(rows[student])
    return [rows[submission.student] for submission in submissions]


def _shown_in_vain(shown: set[str], result: Result) -> Iterator[str]:
    """A flag for each exercise that "done" stood below and that its check finds wrong.

    What is right on the public examples was done in the student's own notebook.
    """
    for cell in result.cells.values():
        if cell.exercise in shown and cell.score == 0 and cell.reason not in HIDDEN.values():
            yield f'"done" stood below the check of {cell.exercise}, and it is not'


class _Job(NamedTuple):
    """What a worker is given: ``version`` is a number of ``_Desk.packed``."""

    student: str
    version: int
    request: bytes


class _Desk:
    """Where submissions become jobs. ``origins``: what a result of each version depends on, but for
    the submission; ``packed``: what travels to a worker, too."""

    def __init__(self, versions: Sequence[Version], settings: Settings) -> None:
        self.versions, self.settings = versions, settings
        self.packed = [pack_course(version.course, version.package) for version in versions]
        secret = _print(settings.secret) if settings.secret else "practice"
        self.origins = [
            {
                "assignment": _print(json.dumps(version.released, sort_keys=True).encode()),
                "package": f"{version.name}+{_print(_files(version.package or PACKAGE))}",
                "secret": secret,
                "walls": str(settings.walls),
            }
            for version in versions
        ]

    def request(self, submission: Submission) -> tuple[int, bytes, str]:
        """The version's number, what its job is given, and why it can't be, if it can't."""
        if submission.problem:
            return 0, b"", submission.problem
        parsed: dict[str, Any] = {}
        for name, content in submission.notebooks.items():
            with _readable(name, submission):
                parsed[name] = parse(content)
                submission.shown |= shown_in(parsed[name])
        number, flags = fitting(parsed, self.versions)
        submission.flags += flags
        student = submission.student if self.settings.per_student else ""
        released = self._handed_out(number, student)
        ordered: dict[str, str] = {}
        for name, notebook in parsed.items():
            with _readable(name, submission):
                text, flags = order(notebook, released[name])
                submission.flags += [f"{name}: {flag}" for flag in flags]
                ordered[name] = base64.b64encode(text).decode()
        if not ordered:
            return number, b"", "; ".join(_few(submission.flags)) or "there is no notebook"
        request = {
            "notebooks": ordered,
            "secret": self.settings.secret.hex() if self.settings.secret else None,
            "student": student,
            "walls": self.settings.walls,
            "cell_seconds": self.settings.cell_seconds,
        }
        return number, json.dumps(request, sort_keys=True).encode(), ""

    @functools.lru_cache(maxsize=2)  # noqa: B019 -- a desk lives as long as a run
    def _handed_out(self, number: int, student: str) -> Mapping[str, Any]:
        """The notebooks that this student was given, with their numbers."""
        secret = self.settings.secret
        numbers = public_numbers if secret is None else secret_numbers(secret, student)
        return self.versions[number].with_numbers(numbers)


@contextlib.contextmanager
def _readable(name: str, submission: Submission) -> Iterator[None]:
    """Whatever a stranger's file does to who reads it, it is one row's."""
    try:
        yield
    except Exception as error:
        why = str(error) if isinstance(error, Unreadable) else type(error).__name__
        submission.flags.append(f"{name} could not be read: {why}")


def _done(row: Row) -> bool:
    return row.result.status == "graded"


def _few(flags: list[str]) -> list[str]:
    """As many as somebody reads."""
    more = [f"and {len(flags) - 50} more"] if len(flags) > 50 else []
    return [*flags[:50], *more]


def _print(content: bytes) -> str:
    """A fingerprint."""
    return hashlib.sha256(content).hexdigest()[:16]


def changes(before: Sequence[Row], after: Sequence[Row]) -> list[str]:
    """A line for each mark that is another one: whose, from what to what, and why."""
    old = {row.student: row for row in before}
    lines = []
    for row in after:
        was = old.get(row.student)
        if was is None and not row.origin:
            continue  # of the roster alone: nothing was handed in, now or before
        if was is None:
            lines.append(f"{row.student}: new, {_mark(row.result.score)}")
            continue
        here, there = row.result.cells, was.result.cells
        names = dict.fromkeys([*there, *here])
        moved = [
            f"{name.rpartition('-')[0]} {_mark_of(there, name)} -> {_mark_of(here, name)}"
            for name in names
            if _mark_of(there, name) != _mark_of(here, name)
        ]
        if not moved and was.result.status == row.result.status:
            continue
        why = [
            text for part, text in ORIGINS.items() if was.origin.get(part) != row.origin.get(part)
        ]
        why = why or [
            row.result.reason or was.result.reason or "nothing that it depends on changed"
        ]
        what = ", ".join(moved) or f"{was.result.status} -> {row.result.status}"
        total = f"{_mark(was.result.score)} -> {_mark(row.result.score)}"
        lines.append(f"{row.student}: {total} ({what}): {'; '.join(why)}")
    return lines


def _mark(score: float | None) -> str:
    return "not known" if score is None else f"{score:g}"


def _mark_of(cells: dict[str, Cell], name: str) -> str:
    return _mark(cells[name].score) if name in cells else "not there"


@functools.cache
def _files(package: Path) -> bytes:
    """A package's own text, as it was when first asked."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.digest()


def pack_course(course: Path, package: Path | None = None) -> bytes:
    """The course folder as bytes, the same for the same content: what travels to a worker.

    ``package``: that of another version, which is to grade; it travels, too.
    """
    files = {"course/" + p.relative_to(course).as_posix(): p for p in course.rglob("*")}
    if package is not None:
        files |= {
            f"package/minisgl_lite/{path.relative_to(package).as_posix()}": path
            for path in package.rglob("*")
            if "__pycache__" not in path.parts
        }
    content = {
        name: base64.b64encode(path.read_bytes()).decode()
        for name, path in files.items()
        if path.is_file()
    }
    return json.dumps(content, sort_keys=True).encode()


def run_job(course: bytes, request: bytes, seconds: float) -> str:
    """Grade one submission in a process of its own; its result as JSON, whatever happens.

    A worker elsewhere runs this: bytes in, text out.
    """
    with tempfile.TemporaryDirectory(prefix="job-") as name:
        folder = Path(name)
        for path, content in json.loads(course).items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(base64.b64decode(content))
        (folder / "request.json").write_bytes(request)
        (folder / "kernel-1").mkdir(mode=0o700)
        names = ("course", "request.json", "result.json", "kernel-1")
        arguments = [str(folder / name) for name in names] + [str(seconds)]
        log = folder / "log"
        log.touch(mode=0o600)  # the kernel inherits it, and must not read it
        with log.open("wb") as file, _start(arguments, folder, file.fileno()) as process:
            _running.add(process)
            try:
                # The job itself minds its time, and keeps what it has; this is for one that hangs.
                status = process.wait(seconds + GRACE)
            except TimeoutError:
                return Result("timeout", reason=f"not done within {seconds:g} seconds").to_json()
            finally:
                _running.discard(process)
        if (folder / "result.json").is_file():
            return (folder / "result.json").read_text(encoding="utf-8")
        return _failed(status, log.read_bytes()).to_json()


def _start(arguments: list[str], folder: Path, log: int) -> Started | Forked:
    """A job; forked, where that is possible and it is this package's."""
    walls, env = not sandbox.missing(), _job_environment(folder)
    if walls and FORKED and not (folder / "package").is_dir():
        template = Template.running(env)
        if template.works:
            return template.start(arguments, folder, log)
    outside = sandbox.around_job(folder / "kernel-1") if walls else []
    return Started([*outside, *JOB, *arguments], folder, log, env)


def _job_environment(folder: Path) -> dict[str, str]:
    """The job's variables; it imports this very package, or the one that it was given."""
    given = folder / "package"
    root = given if given.is_dir() else PACKAGE.parent
    paths = [] if root.name.endswith("-packages") else [str(root)]
    paths += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    own = {"OMP_NUM_THREADS": "1", "TMPDIR": str(folder), "PYTHONUTF8": "1"}
    return os.environ | own | {"PYTHONPATH": os.pathsep.join(paths)}


_running: set[Started | Forked] = set()
"""The jobs of this process."""


def _failed(status: int, log: bytes) -> Result:
    number = -status if status < 0 else status - 128  # bubblewrap tells it as a shell does
    if number in list(signal.Signals):
        return Result("killed", reason=f"its job was ended by {signal.Signals(number).name}")
    lines = log.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
    return Result("error", reason=f"the grader failed: {without_places(lines[-1])[:300]}")


def _results(
    courses: Sequence[bytes], waiting: list[_Job], settings: Settings
) -> Generator[tuple[str, Result], None, None]:
    """(student, result) as jobs end."""
    pool = _DaskPool(settings.scheduler) if settings.scheduler else _ThreadPool(settings.workers)
    with pool:
        for student, text in pool.results(courses, waiting, settings.seconds):
            yield student, _read_result(text)


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
        self.jobs: dict[Future[str], str] = {}

    def results(
        self, courses: Sequence[bytes], waiting: list[_Job], seconds: float
    ) -> Iterator[tuple[str, str | Exception]]:
        self.jobs = {
            self.executor.submit(run_job, courses[job.version], job.request, seconds): job.student
            for job in waiting
        }
        for job in as_completed(self.jobs):
            yield self.jobs[job], job.exception() or job.result()  # type: ignore[misc]

    def __enter__(self) -> _ThreadPool:
        return self

    def __exit__(self, *exc: object) -> None:
        """After Ctrl-C, or an error of ours, nothing runs on."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        while not all(job.done() for job in self.jobs):
            for process in list(_running):
                process.end()
            time.sleep(0.05)
        self.executor.shutdown()


class _DaskPool:
    """The same jobs on a running cluster: no file system is shared, lost workers' jobs run anew."""

    def __init__(self, address: str) -> None:
        self.distributed: Any = require("distributed", extra="grade")
        self.client = self.distributed.Client(address, timeout=20)

    def results(
        self, courses: Sequence[bytes], waiting: list[_Job], seconds: float
    ) -> Iterator[tuple[str, str | Exception]]:
        shared = [self.client.scatter(c, broadcast=True, hash=False) for c in courses]
        jobs = {
            self.client.submit(
                run_job, shared[job.version], job.request, seconds, pure=False, retries=1
            ): job.student
            for job in waiting
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
    "ORIGINS",
    "Row",
    "Settings",
    "Store",
    "changes",
    "grade_class",
    "pack_course",
    "run_job",
    "without_submission",
]
