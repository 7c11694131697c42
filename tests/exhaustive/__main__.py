"""``python -m tests.exhaustive``: run every stream of the bound; exit 0 if nothing went wrong."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .program import CHUNKS, summary, sweep, write
from .report import bound, from_json, tell
from .worlds import COUNTED


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exhaustive", description=__doc__)
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    parser.add_argument("--folder", type=Path, default=Path("build/exhaustive"))
    parser.add_argument(
        "--part", type=float, default=1.0, help="share of the bound, spread over it"
    )
    parser.add_argument("--case", type=from_json, help="run one stream again and tell it")
    arguments = parser.parse_args()
    if arguments.case is not None:
        return 0 if tell(arguments.case) else 1
    print(bound())
    print(f"Runs of the whole bound: {sum(COUNTED.values()):,}.", flush=True)
    part = None if arguments.part >= 1 else max(1, round(CHUNKS * arguments.part))
    result = sweep(arguments.folder, arguments.workers, first=part)
    write(result, arguments.folder)
    print(summary(result).removeprefix(bound()))
    print(f"Written to {arguments.folder}/summary.md and summary.json.")
    partial = [line for line in result.problems() if not (part and line.startswith("only "))]
    return 1 if partial else 0


if __name__ == "__main__":
    sys.exit(main())
