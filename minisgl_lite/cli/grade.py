"""``minisgl-lite grade``: a folder of submissions in, a gradebook and feedback out."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WARNING = "Graded without a sandbox: the submissions could read and change what the grader could."


def add_parser(commands: Any) -> None:
    """Add the subcommand to argparse's ``commands``."""
    parser = commands.add_parser(
        "grade",
        help="grade a class",
        description="Grade a folder with a folder for each student. Exit codes: 0 all graded,"
        " 1 some need attention, 2 the command was wrong.",
    )
    parser.add_argument("submissions", type=Path, help="a folder with one folder per student")
    parser.add_argument("--assignment", required=True, metavar="NAME", help="what was handed out")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the results")
    parser.add_argument("--solutions", type=Path, default=Path("solutions"), help="(solutions)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="jobs at a time (2)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask cluster's, tcp://…")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="per student (600)")
    parser.add_argument("--resume", action="store_true", help="keep what is done and unchanged")
    parser.add_argument("--roster", type=Path, metavar="FILE", help="a student's id on each line")
    parser.add_argument("--secret", type=Path, metavar="FILE", help="the course's; else: practice")
    parser.add_argument("--per-student", action="store_true", help="released with --per-student")
    parser.add_argument("--dry-run", action="store_true", help="grade five, estimate the rest")
    parser.add_argument("--no-sandbox", action="store_true", help="trust every submission")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Grade, write the reports, return the exit code."""
    from minisgl_lite.grade import sandbox
    from minisgl_lite.grade.course import Course
    from minisgl_lite.grade.intake import Submission, read_class
    from minisgl_lite.grade.run import Settings, Store, grade_class, without_submission
    from minisgl_lite.teaching.assignments import notebooks_of
    from minisgl_lite.teaching.release import read_roster

    names = notebooks_of(args.assignment)
    if args.workers < 1 or args.timeout <= 0:
        raise ValueError("--workers and --timeout must be above 0.")
    if not args.no_sandbox and (lacking := sandbox.missing()):
        raise ValueError(
            f"no sandbox here: {', '.join(lacking)} missing. Install bubblewrap and util-linux"
            " (Debian: apt-get install bubblewrap), or trust all submissions with --no-sandbox."
        )
    roster = read_roster(args.roster) if args.roster else []
    submissions: list[Submission] = read_class(args.submissions, args.assignment, names)
    chosen = submissions[:5] if args.dry_run else submissions
    settings = Settings(
        secret=args.secret.read_bytes().strip() if args.secret else None,
        walls=not args.no_sandbox,
        seconds=args.timeout,
        workers=args.workers,
        scheduler=args.scheduler,
        per_student=args.per_student,
    )
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        course = Course.create(
            Path(folder) / "course", [args.solutions / f"{name}.ipynb" for name in names]
        )
        rows = grade_class(
            chosen,
            course.root,
            course.released(),
            Store(args.out / "results"),
            settings,
            resume=args.resume,
            progress=_bar,
        )
    handed_in = {submission.student for submission in submissions}
    if not args.dry_run:
        rows += [without_submission(name) for name in roster if name not in handed_in]
        rows.sort(key=lambda row: row.student)
    _write(args, rows)
    return 0 if all(row.result.status == "graded" for row in rows) else 1


def _bar(jobs: Iterable[Any], total: int) -> Iterable[Any]:
    from tqdm import tqdm

    return tqdm(jobs, total=total, desc="grading", unit="student", file=sys.stderr)


def _write(args: argparse.Namespace, rows: list[Any]) -> None:
    from minisgl_lite.grade.gradebook import (
        feedback_html,
        gradebook_csv,
        summary_html,
        write_whole,
    )

    warning = WARNING if args.no_sandbox else ""
    if not args.secret:
        warning = " ".join([warning, "Practice: the public streams, no course secret."]).strip()
    write_whole(args.out / "gradebook.csv", gradebook_csv(rows))
    write_whole(args.out / "summary.html", summary_html(rows, warning=warning))
    feedback = args.out / "feedback"
    feedback.mkdir(exist_ok=True)
    for number, row in enumerate(rows, start=1):
        write_whole(feedback / f"{number:04}.html", feedback_html(row, warning=warning))
    print(f"{len(rows)} students: {args.out / 'gradebook.csv'}, {args.out / 'summary.html'}")
