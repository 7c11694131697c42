"""How many small changes to a right answer do the checks notice? ``make mutation`` asks them all.

Each mutant of each build exercise's reference answer is checked, first with one stream, and if it
passes, with the checks' other streams. Whoever passes these, too, is either the same program in
other words (``EQUIVALENT`` says why) or a mistake that a check overlooks (``OVERLOOKED``).
The table goes to ``MUTATION.md`` beside this file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import torch

from minisgl_lite.teaching.checks.exercise import EXERCISES, load_exercises
from minisgl_lite.teaching.checks.judge import judge
from minisgl_lite.teaching.checks.learner import MAX_CALLS, Link, Wrong
from minisgl_lite.teaching.checks.serve import Server
from tests.teaching.exercises.equivalent import EQUIVALENT, OVERLOOKED
from tests.teaching.exercises.mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parents[3]
TABLE = Path(__file__).with_name("MUTATION.md")
FAST = (0,)
FULL = tuple(range(1, 7))
CALL_SECONDS = 1.0
"""A mutant that runs longer in one call is taken for an endless loop."""


class InProcess(Link):
    """The learner's side in this process: values still travel as the text that a pipe carries."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace, self.calls = namespace, 0

    def begin(self, counterparts: Sequence[str], seconds: float, call_seconds: float) -> None:
        self.server = Server(self.namespace, counterparts, seconds=call_seconds)
        self.calls, self.ends = 0, time.monotonic() + seconds

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        if self.calls > MAX_CALLS or time.monotonic() > self.ends:
            raise Wrong("your code was called too often, or took too long")
        with torch.inference_mode(False):  # which is the engine's, over there
            answer = self.server.answer(json.loads(json.dumps(request)))
        return dict(json.loads(json.dumps(answer)))


class Answer(NamedTuple):
    """A build exercise's reference answer, and the cells that stand before it."""

    name: str
    source: str
    before: str


def answers(folder: Path = ROOT / "solutions") -> Iterator[Answer]:
    load_exercises()
    for path in sorted(folder.glob("*.ipynb")):
        before = ""
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type != "code" or not cell.id.endswith("-answer"):
                continue
            name = cell.id.removesuffix("-answer")
            if EXERCISES[name].kind == "build":
                yield Answer(name, cell.source, before)
            before += cell.source + "\n"


def passes(answer: Answer, source: str, seeds: Sequence[int]) -> bool:
    """Whether ``source`` in place of the answer is called done with each of the seeds."""
    namespace: dict[str, Any] = {}
    try:
        exec(compile(answer.before + source, answer.name, "exec"), namespace)
    except Exception:
        return False
    exercise, link = EXERCISES[answer.name], InProcess(namespace)
    for seed in seeds:  # one by one: a check's calls are counted
        verdict = judge(exercise, link, [seed], seconds=120, call_seconds=CALL_SECONDS)
        if verdict.status != "done":
            return False
    return True


class Count(NamedTuple):
    """What became of an exercise's mutants; those that no check notices, one by one."""

    answer: Answer
    total: int
    fast: int
    full: int
    survivors: list[Mutant]
    seconds: float

    def key(self, mutant: Mutant) -> tuple[str, str, str]:
        return self.answer.name, mutant.before, mutant.after

    @property
    def equivalent(self) -> list[Mutant]:
        return [mutant for mutant in self.survivors if self.key(mutant) in EQUIVALENT]

    @property
    def overlooked(self) -> list[Mutant]:
        return [mutant for mutant in self.survivors if self.key(mutant) not in EQUIVALENT]

    @property
    def share(self) -> float:
        """Of those that are another program."""
        return (self.fast + self.full) / max(1, self.total - len(self.equivalent))


def count(answer: Answer, say: Callable[[str], None] = print) -> Count:
    began, total, fast, full = time.process_time(), 0, 0, 0
    survivors: list[Mutant] = []
    assert passes(answer, answer.source, FAST + FULL), f"{answer.name}: the answer itself is wrong"
    for mutant in mutants(answer.source):
        total += 1
        if not passes(answer, mutant.source, FAST):
            fast += 1
        elif not passes(answer, mutant.source, FULL):
            full += 1
        else:
            survivors.append(mutant)
            say(f"  passes: {mutant.before}  ->  {mutant.after}")
    counted = Count(answer, total, fast, full, survivors, time.process_time() - began)
    say(f"{answer.name}: {total} mutants, {fast} + {full} noticed, {counted.seconds:.0f} s")
    return counted


def digest(answer: Answer) -> str:
    return hashlib.sha256(answer.source.encode()).hexdigest()[:8]


def table(counts: Sequence[Count]) -> str:
    """The table as Markdown, with a line for each mutant that no check notices."""
    lines = [
        "# Mutants of the reference answers",
        "",
        "Made by `make mutation`. A mutant is one small change to a right answer.",
        "",
        "- *one stream*: how many a check notices with the stream of its first seed alone",
        f"- *more streams*: how many of the rest with {len(FULL)} further ones",
        "- *same program*: those that can't be told from the answer by what they do",
        "- *overlooked*: those that are another program, and pass",
        "- *noticed*: the share of those that are another program",
        "",
        "| exercise | answer | mutants | one stream | more streams | same program | overlooked |"
        " noticed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for c in counts:
        lines.append(
            f"| {c.answer.name} | {digest(c.answer)} | {c.total} | {c.fast} | {c.full}"
            f" | {len(c.equivalent)} | {len(c.overlooked)} | {100 * c.share:.1f} % |"
        )
    noticed = sum(c.fast + c.full for c in counts)
    different = sum(c.total - len(c.equivalent) for c in counts)
    lines.append(
        f"| all | | {sum(c.total for c in counts)} | {sum(c.fast for c in counts)}"
        f" | {sum(c.full for c in counts)} | {sum(len(c.equivalent) for c in counts)}"
        f" | {sum(len(c.overlooked) for c in counts)} | {100 * noticed / max(1, different):.1f} % |"
    )
    lines += ["", *_listed("The same program", counts, "equivalent", EQUIVALENT)]
    lines += _listed("Overlooked", counts, "overlooked", OVERLOOKED)
    return "\n".join(lines).rstrip() + "\n"


def _listed(
    title: str, counts: Sequence[Count], which: str, reasons: dict[tuple[str, str, str], str]
) -> list[str]:
    lines = [f"## {title}", ""]
    for c in counts:
        for mutant in getattr(c, which):
            reason = reasons.get(c.key(mutant), "not explained")
            changed = f"`{mutant.before}` → `{mutant.after}`"
            lines.append(f"- **{c.answer.name}**: {changed}. {reason[0].upper()}{reason[1:]}.")
    return [*lines, ""] if len(lines) > 2 else [*lines, "None.", ""]


def main(arguments: Sequence[str]) -> int:
    """Count all, or only the named exercises; then nothing is written."""
    parser = argparse.ArgumentParser(prog="make mutation", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="EXERCISE")
    names = parser.parse_args(arguments).names
    torch.set_num_threads(1)
    counts = [count(answer) for answer in answers() if not names or answer.name in names]
    if not names:
        TABLE.write_text(table(counts), encoding="utf-8")
        print(f"written: {TABLE.relative_to(ROOT)}")
    unexplained = sum(c.key(m) not in OVERLOOKED for c in counts for m in c.overlooked)
    few = [c.answer.name for c in counts if c.share < 0.95]
    many = [c.answer.name for c in counts if len(c.equivalent) > 0.1 * c.total]
    for words, found in (
        ("mutants pass and are not explained", unexplained),
        ("fewer than 95 % are noticed in", ", ".join(few)),
        ("more than one in ten is set aside in", ", ".join(many)),
    ):
        if found:
            print(f"{found} {words}" if isinstance(found, int) else f"{words} {found}")
    return int(bool(unexplained or few or many))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
