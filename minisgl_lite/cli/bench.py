"""``minisgl-lite bench``: the engine beside transformers, in one process, in turns."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

WORKLOADS = (
    "decode",
    "prefill",
    "stream",
    "context",
    "parts",
    "host",
    "turn",
    "load",
    "memory",
    "quality",
)


def add_parser(commands: Any) -> None:
    """Add the subcommand to argparse's ``commands``."""
    parser = commands.add_parser(
        "bench",
        help="measure the engine beside transformers",
        description="Medians of alternated rounds, and ratios. Leave the machine alone meanwhile.",
    )
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--model", default="smollm2", help="(smollm2)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="(5)")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32], help="(1 8 32)")
    parser.add_argument("--context", type=int, nargs="+", default=[128], help="(128)")
    parser.add_argument(
        "--minisgl", type=Path, metavar="PATH", help="a mini-sglang clone, for host"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round there")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure, print the tables, return the exit code."""
    from minisgl_lite.bench.suite import BASE, measure
    from minisgl_lite.bench.timing import machine, table

    chosen = args.workloads or list(WORKLOADS)
    if unknown := [name for name in chosen if name not in WORKLOADS]:
        raise ValueError(f"unknown workload {unknown[0]!r}; known: {', '.join(WORKLOADS)}.")
    if args.rounds < 1 or min(args.batch + args.context) < 1:
        raise ValueError("--rounds, --batch and --context must be 1 or more.")
    here = machine()
    print(", ".join(f"{key} {value}" for key, value in here.items() if value != ""))
    everything = []
    for name in chosen:
        found = measure(name, args.model, args.rounds, args.batch, args.context, args.minisgl)
        everything += found
        print(f"\n{table(found, BASE[name])}", flush=True)
        if args.json is not None:  # after each workload: an interrupted run leaves what it has
            content = {"machine": here, "measured": [one.as_dict() for one in everything]}
            args.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0
