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
        description="Write exercises/NAME.ipynb for each solutions/NAME.ipynb.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these notebooks")
    parser.add_argument("--solutions", type=Path, default=Path("solutions"), help="(solutions)")
    parser.add_argument("--exercises", type=Path, default=Path("exercises"), help="(exercises)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Release, say what was written, return the exit code."""
    from minisgl_lite.teaching.release import release

    for path in release(args.solutions, args.exercises, args.names):
        print(path)
    return 0
