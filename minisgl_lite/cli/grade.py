"""``minisgl-lite grade`` and ``regrade``: submissions in, a gradebook and feedback out."""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

WARNING = "Graded without a sandbox: the submissions could read and change what the grader could."
DRY = 5
"""How many a dry run grades."""


def add_parser(commands: Any) -> None:
    """Add the subcommands to argparse's ``commands``."""
    codes = "Exit codes: 0 all graded, 1 some need attention, 2 the command was wrong."
    grade = commands.add_parser(
        "grade",
        help="grade a class",
        description=f"Grade a folder with a folder for each student. {codes}",
    )
    _add_common(grade)
    grade.add_argument("--resume", action="store_true", help="keep what is done and unchanged")
    grade.add_argument("--dry-run", action="store_true", help=f"grade {DRY}, estimate the rest")
    grade.add_argument(
        "--validate", metavar="NAME", help="prove that solutions get full marks and stubs none"
    )
    grade.set_defaults(run=run)
    regrade = commands.add_parser(
        "regrade",
        help="grade a class again and say whose mark changed, and why",
        description=f"Grade a class again and say whose mark changed, and why. {codes}",
    )
    _add_common(regrade)
    regrade.set_defaults(run=run_again, resume=False, dry_run=False)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "submissions", type=Path, nargs="?", help="a folder with one folder per student"
    )
    parser.add_argument("--assignment", metavar="NAME", help="what was handed out")
    parser.add_argument("--out", type=Path, metavar="DIR", help="for the results")
    parser.add_argument("--solutions", type=Path, default=Path("solutions"), help="(solutions)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="jobs at a time (2)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask cluster's, tcp://…")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="per student (600)")
    parser.add_argument("--due", metavar="TIME", help="'2026-12-01 23:59 UTC': tells who was late")
    parser.add_argument("--roster", type=Path, metavar="FILE", help="a student's id on each line")
    parser.add_argument("--secret", type=Path, metavar="FILE", help="the course's; else: practice")
    parser.add_argument("--per-student", action="store_true", help="released with --per-student")
    parser.add_argument(
        "--older", type=Path, action="append", default=[], metavar="DIR",
        help="a version handed out before: a folder with its minisgl_lite, solutions, exercises",
    )  # fmt: skip
    parser.add_argument("--no-sandbox", action="store_true", help="trust every submission")


def _with_utf8() -> None:
    """Where the locale can't name every student, begin again in Python's UTF-8 mode."""
    if sys.getfilesystemencoding().lower() == "utf-8":
        return
    if sys.argv[1:2] not in (["grade"], ["regrade"]) or sys.flags.utf8_mode:
        raise ValueError("this locale can't name every student; set PYTHONUTF8=1.")
    os.environ["PYTHONUTF8"] = "1"
    # Not by -m: that looks for modules in the folder at hand, which may be the students'.
    code = f"import sys; sys.path[0] = {str(Path(__file__).parents[2])!r}; import minisgl_lite.cli"
    arguments = ["-c", f"{code}; sys.exit(minisgl_lite.cli.main())", *sys.argv[1:]]
    os.execv(sys.executable, [sys.executable, *arguments])


def run(args: argparse.Namespace) -> int:
    """Grade, write the reports, return the exit code."""
    _with_utf8()
    if args.validate is not None:
        return _validate(args)
    _grade(args)
    return _exit_code(args.rows)


def run_again(args: argparse.Namespace) -> int:
    """Grade all anew and print whose mark changed."""
    _with_utf8()
    from minisgl_lite.grade.run import changes

    before = _grade(args)
    if not before:
        print(f"Nothing was graded in {args.out} before.")
    else:
        lines = changes(before, args.rows)
        print("\n".join(lines or ["No mark changed."]))
    return _exit_code(args.rows)


def _exit_code(rows: list[Any]) -> int:
    return 0 if all(row.result.status == "graded" for row in rows) else 1


def _settings(args: argparse.Namespace) -> Any:
    """What the options say. Raises ValueError for what can't be."""
    from minisgl_lite.grade import sandbox
    from minisgl_lite.grade.run import Settings
    from minisgl_lite.teaching.release import secret_numbers

    if args.workers < 1 or not 0 < args.timeout < math.inf:
        raise ValueError("--workers and --timeout must be above 0.")
    if not args.no_sandbox and (lacking := sandbox.missing()):
        raise ValueError(
            f"no sandbox here: {', '.join(lacking)} missing. Install bubblewrap and util-linux"
            " (Debian: apt-get install bubblewrap), or trust all submissions with --no-sandbox."
        )
    secret = args.secret.read_bytes().strip() if args.secret else None
    if secret is not None:
        secret_numbers(secret)  # one that is too short stops the command, and no student
    elif args.per_student:
        raise ValueError("--per-student needs --secret: without one all have the same numbers.")
    return Settings(
        secret=secret,
        walls=not args.no_sandbox,
        seconds=args.timeout,
        workers=args.workers,
        scheduler=args.scheduler,
        per_student=args.per_student,
    )


def _grade(args: argparse.Namespace) -> list[Any]:
    """Grade and write; ``args.rows`` are the rows. Returns those that ``--out`` had before."""
    from minisgl_lite.grade.course import Course
    from minisgl_lite.grade.formgrader import merge
    from minisgl_lite.grade.intake import read_class
    from minisgl_lite.grade.late import lateness
    from minisgl_lite.grade.run import Store, grade_class, without_submission
    from minisgl_lite.grade.versions import older_version, present_version
    from minisgl_lite.teaching.assignments import notebooks_of
    from minisgl_lite.teaching.release import public_numbers, read_roster, secret_numbers

    if args.submissions is None or args.assignment is None or args.out is None:
        raise ValueError("a folder of submissions, --assignment and --out are needed.")
    names = notebooks_of(args.assignment)
    settings = _settings(args)
    roster = read_roster(args.roster) if args.roster else []
    submissions = read_class(args.submissions, args.assignment, names)
    args.late = lateness(submissions, args.due) if args.due else {}
    chosen = submissions[:DRY] if args.dry_run else submissions
    args.out.mkdir(parents=True, exist_ok=True)
    store = Store(args.out / "results")
    known = [store.read(submission.student) for submission in chosen]
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        sources = [args.solutions / f"{name}.ipynb" for name in names]
        of_the_class = settings.secret is not None and not settings.per_student
        numbers = secret_numbers(settings.secret or b"") if of_the_class else public_numbers
        course = Course.create(Path(folder) / "course", sources, numbers)
        older = [
            older_version(path, names, Path(folder) / f"older-{number}")
            for number, path in enumerate(args.older)
        ]
        begin = time.monotonic()
        rows = grade_class(
            chosen,
            present_version(course, sources),
            store,
            settings,
            older=older,
            resume=args.resume,
            progress=_reported(args.out / "grade.log"),
        )
        if args.dry_run:
            args.rows = rows
            seconds = (time.monotonic() - begin) / len(chosen) * len(submissions)
            print(f"{len(submissions)} submissions: about {math.ceil(seconds / 60)} minutes")
        else:
            rows = merge(args.out, course, args.assignment, rows)
            handed_in = {submission.student for submission in submissions}
            rows += [without_submission(name) for name in roster if name not in handed_in]
            args.rows = sorted(rows, key=lambda row: row.student)
    _write(args, args.out / "dry-run" if args.dry_run else args.out, args.rows)
    return [row for row in known if row is not None]


def _validate(args: argparse.Namespace) -> int:
    """Solutions and stubs, graded as if they had been handed in."""
    import nbformat

    from minisgl_lite.grade.course import Course
    from minisgl_lite.grade.intake import Submission
    from minisgl_lite.grade.run import Store, grade_class
    from minisgl_lite.grade.versions import present_version
    from minisgl_lite.teaching.assignments import notebooks_of

    names = notebooks_of(args.validate)
    settings = _settings(args)
    with tempfile.TemporaryDirectory(prefix="validate-") as folder:
        sources = {f"{name}.ipynb": args.solutions / f"{name}.ipynb" for name in names}
        course = Course.create(Path(folder) / "course", list(sources.values()))
        released = course.released()
        stubs = {name: nbformat.writes(notebook).encode() for name, notebook in released.items()}
        both = [
            Submission("solutions", {name: path.read_bytes() for name, path in sources.items()}),
            Submission("stubs", stubs),
        ]
        version = present_version(course, list(sources.values()))
        rows = grade_class(both, version, Store(Path(folder) / "out"), settings)
    wrong = 0
    for row, full in zip(rows, (True, False), strict=True):
        checked = {i: c for i, c in row.result.cells.items() if i.endswith("-check")}
        earned = sum(cell.score or 0 for cell in checked.values())
        print(f"{row.student}: {earned:g} of {sum(c.max_score for c in checked.values()):g} points")
        for grade_id, cell in checked.items():
            if cell.score != (cell.max_score if full else 0):
                wrong += 1
                print(f"  {grade_id}: {cell.score} of {cell.max_score:g}: {cell.reason}")
        if not checked:
            wrong += 1
            print(f"  {row.result.status}: {row.result.reason}")
    return 1 if wrong else 0


def _reported(log: Path) -> Callable[[Iterable[Any], int], Iterable[Any]]:
    """A bar with the time left, and a line in ``log`` for each submission that is done."""

    def progress(jobs: Iterable[Any], total: int) -> Iterator[Any]:
        from tqdm import tqdm

        with log.open("a", encoding="utf-8") as file:
            for job in tqdm(jobs, total=total, desc="grading", unit="student", file=sys.stderr):
                student, result = job
                now = time.strftime("%Y-%m-%d %H:%M:%S")
                print(now, result.status, repr(student), result.reason, file=file, flush=True)
                yield job

    return progress


def _write(args: argparse.Namespace, out: Path, rows: list[Any]) -> None:
    from minisgl_lite.grade.gradebook import (
        feedback_html,
        gradebook_csv,
        summary_html,
        write_whole,
    )

    warning = WARNING if args.no_sandbox else ""
    if not args.secret:
        warning = " ".join([warning, "Practice: the public streams, no course secret."]).strip()
    feedback = out / "feedback"
    feedback.mkdir(parents=True, exist_ok=True)
    write_whole(out / "gradebook.csv", gradebook_csv(rows, args.late))
    write_whole(out / "summary.html", summary_html(rows, warning=warning))
    for number, row in enumerate(rows, start=1):
        write_whole(feedback / f"{number:04}.html", feedback_html(row, warning=warning))
    print(f"{len(rows)} students: {out / 'gradebook.csv'}, {out / 'summary.html'}")
