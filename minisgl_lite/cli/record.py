"""``minisgl-lite record``: a script's run on ours or on mini-sglang's scheduler, as a trace."""

from __future__ import annotations

import argparse
import contextlib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minisgl_lite.hooks import HookError

from .files import check_place

if TYPE_CHECKING:
    from minisgl_lite.teaching.record import Recorded

ALL = "all"
DESCRIPTION = """\
Run SCRIPT, a Python file that plays one minisgl_lite.toy.Toy, and write the trace of its run. The
Toy drives this package's scheduler, this one with behaviours of mini-sglang as published, or
mini-sglang's own scheduler and managers, unchanged, from your clone. The view opens the file:
show(Trace.load(FILE)). A run that goes wrong is no error here: it is recorded, and said."""


def add_parser(commands: Any) -> None:
    """Add the subcommand to argparse's ``commands``."""
    parser = commands.add_parser(
        "record", help="write the trace of a script", description=DESCRIPTION
    )
    add = parser.add_argument
    add("script", metavar="SCRIPT", help="a file, or a script of the package, such as stale-rows")
    side = parser.add_mutually_exclusive_group()
    side.add_argument("--minisgl", metavar="PATH", help="your clone of mini-sglang")
    side.add_argument(
        "--behaviour",
        action="append",
        default=[],
        dest="behaviours",
        metavar="NAME",
        help=f"a published behaviour, or {ALL}; may be given several times",
    )
    add("-o", "--out", type=Path, metavar="FILE", help="SCRIPT[.SIDE].json.gz, if it isn't given")
    add("--check", action="store_true", help="watch every slot with the KV sanitizer")
    add(
        "--unsorted",
        action="store_true",
        help="leave decode batches as they come; mini-sglang's have the order of a set",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Record, write, say what there is to say; returns the exit code."""
    from minisgl_lite.teaching.record import find_script, record_script

    script = find_script(args.script)
    out = args.out or _default_place(script, args)
    check_place("--out", out)
    with _clone(args.minisgl), _one_line(script):
        recorded = record_script(
            script,
            minisgl=args.minisgl,
            behaviours=_behaviours(args.behaviours),
            check=args.check,
            sort=not args.unsorted,
        )
    recorded.trace.save(out)
    print("\n".join(_lines(out, recorded)))
    return 0


def _behaviours(names: list[str]) -> list[str]:
    from minisgl_lite.teaching.published import PUBLISHED

    return PUBLISHED.supported_names() if ALL in names else list(dict.fromkeys(names))


def _default_place(script: Path, args: argparse.Namespace) -> Path:
    """In the current folder; the name tells the sides apart."""
    side = "minisgl" if args.minisgl is not None else "+".join(args.behaviours)
    return Path(".".join(filter(None, [script.stem, side, "json", "gz"])))


@contextlib.contextmanager
def _clone(path: str | None) -> Iterator[None]:
    """Behaviours were compared at one commit; another one may differ, or not run here at all."""
    if path is None:
        yield
        return
    from minisgl_lite.teaching.clone import COMMIT, load_minisgl

    try:
        try:
            commit = load_minisgl(path).commit
        except RuntimeError as error:
            raise ValueError(str(error)) from error
        if commit is not None and not commit.startswith(COMMIT):
            print(
                f"note: the clone is at {commit[:7]}; this was made for {COMMIT}", file=sys.stderr
            )
        yield
    except (AttributeError, TypeError) as error:
        raise ValueError(
            f"{path} does not run here; {COMMIT} does. {type(error).__name__}: {error}"
        ) from error


@contextlib.contextmanager
def _one_line(script: Path) -> Iterator[None]:
    """An error of the script itself, with its line; others are told as they are."""
    try:
        yield
    except (HookError, OSError):
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(script)]
        if isinstance(error, SyntaxError) and error.filename == str(script):
            lines = [error.lineno]
        if not lines:
            raise
        raise ValueError(f"{script}, line {lines[-1]}: {type(error).__name__}: {error}") from error


def _lines(out: Path, recorded: Recorded) -> Iterator[str]:
    meta, found = recorded.trace.meta, recorded.faults
    pages = f"{meta['num_pages']} pages of {meta['page_size']} tokens"
    yield f"{out}: {len(recorded.trace)} frames, {pages}"
    if recorded.error is not None:
        yield f"the run was ended by {recorded.error}"
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        yield f"sanitizer: {found[0].text}{more}"
