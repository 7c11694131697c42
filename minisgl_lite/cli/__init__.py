"""The command ``minisgl-lite``.

Exit codes: 0 when all went well; 1 when some prompts failed and others did not; 2 when nothing
could run (a bad option, model or file, or no good prompt) or the sanitizer found a fault; 130
after Ctrl-C. What failed is said in one line. With ``record``, 0 means that the trace is written,
whatever the run did.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from minisgl_lite.hooks import HookError

from . import bench, generate, grade, record, release


class _Parser(argparse.ArgumentParser):
    """Errors in one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="minisgl-lite", description="A small LLM engine that you can watch.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    generate.add_parser(commands)
    record.add_parser(commands)
    release.add_parser(commands)
    grade.add_parser(commands)
    bench.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (see above). Bad options raise SystemExit(2)."""
    args = build_parser().parse_args(argv)
    try:
        return int(args.run(args))
    except BrokenPipeError:
        # Who read our output has gone. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError, ImportError, HookError) as error:
        line = " ".join(str(error).split()) or type(error).__name__
        print(f"minisgl-lite {args.command}: error: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


__all__ = ["build_parser", "main"]
