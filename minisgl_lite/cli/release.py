"""``minisgl-lite release``: the students' notebooks, cut out of the solutions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the subcommand to argparse's ``commands``."""
    parser = commands.add_parser(
        "release",
        help="cut the students' notebooks out of the solutions",
        description="Write exercises/NAME.ipynb for each solutions/NAME.ipynb. With a secret, the"
        " questions made from numbers get a course's own, or each student's.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these notebooks")
    parser.add_argument("--solutions", type=Path, default=Path("solutions"), help="(solutions)")
    parser.add_argument("--exercises", type=Path, default=Path("exercises"), help="(exercises)")
    parser.add_argument("--secret", type=Path, metavar="FILE", help="a course's secret, 16 bytes")
    parser.add_argument(
        "--per-student", action="store_true", help="one folder of exercises for each student"
    )
    parser.add_argument("--roster", type=Path, metavar="FILE", help="a student's id on each line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Release, say what was written, return the exit code."""
    from minisgl_lite.teaching.release import public_numbers, read_roster, release, secret_numbers

    if args.per_student != (args.roster is not None) or (args.per_student and not args.secret):
        raise ValueError("--per-student needs --secret FILE and --roster FILE, and they need it.")
    secret = args.secret.read_bytes().strip() if args.secret else None
    folders = {"": args.exercises}
    if args.per_student:
        folders = {name: args.exercises / name for name in read_roster(args.roster)}
    for student, folder in folders.items():
        numbers = secret_numbers(secret, student) if secret is not None else public_numbers
        for path in release(args.solutions, folder, args.names, numbers):
            print(path)
    return 0
