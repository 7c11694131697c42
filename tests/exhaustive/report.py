"""The bound, the counts and the findings in words, and a run told turn by turn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from minisgl_lite.core import Batch
from minisgl_lite.engine.engine import ForwardOutput

from .device import Device, Violation
from .naming import Shape
from .play import RIGHT, Kit
from .sweep import Finding, Tally, run_case
from .worlds import CACHES, LOOPS, POOLS, WORLDS, Abort, Case, Setting


def bound() -> str:
    """The bound, to be printed before a sweep."""
    lines = ["Every stream of these worlds, streams that differ only in token names merged:"]
    lines += [f"  ({world.name}) {world}" for world in WORLDS.values()]
    lines += [
        f"Loops: {', '.join(LOOPS)} (on a device that runs each step as late as the host lets it).",
        f"Caches: {', '.join(CACHES)} (naive looks at no token: there all tokens differ).",
        f"Pools: the fewest pages that hold the longest request alone, and {POOLS[-2]} and"
        f" {POOLS[-1]} more.",
        "After every turn: each slot has one owner. At every step: tokens, positions, and each slot"
        " that is read, in both layers. At rest: all replies, rows, pages, locks, cached content.",
    ]
    return "\n".join(lines)


def describe_shape(shape: Shape) -> str:
    end = f", EOS as output {shape.stop}" if shape.stop else ""
    return f"prompt {shape.prompt}, max_tokens {shape.max_tokens}{end}"


def describe(case: Case) -> str:
    """One line that says the whole stream."""
    setting = case.setting
    requests = "; ".join(
        f"r{uid} at turn {turn}: {describe_shape(shape)}"
        for uid, (turn, shape) in enumerate(zip(case.arrivals, case.shapes, strict=True))
    )
    pairs = combinations(range(len(case.shapes)), 2)
    shared = ", ".join(
        f"r{i} and r{j} share {n}"
        for (i, j), n in zip(pairs, case.common, strict=True)
        if n or setting.cache == "radix"
    )
    abort = f"; r{case.abort.uid} aborted at turn {case.abort.turn}" if case.abort else ""
    return (
        f"world {setting.world}, P={setting.page_size}, {setting.num_pages(case.shapes)} pages,"
        f" {setting.loop}, {setting.cache}: {requests}{'; ' + shared if shared else ''}{abort}"
    )


def to_json(case: Case) -> str:
    return json.dumps(case)


def from_json(text: str) -> Case:
    """The case that ``to_json`` wrote. Raises ValueError."""
    try:
        setting, shapes, common, arrivals, abort = json.loads(text)
        return Case(
            Setting(*setting),
            tuple(Shape(*shape) for shape in shapes),
            tuple(common),
            tuple(arrivals),
            Abort(*abort) if abort else None,
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{text!r} is no case: {error}") from error


class Telling(Device):
    """Prints each batch as it is launched."""

    def forward_batch(self, batch: Batch, args: None) -> ForwardOutput:
        members = "; ".join(
            f"r{req.uid} row {req.table_idx} [{m.start}, {len(m.slots)}) reads slots {m.slots}"
            for req, m in zip(batch.reqs, batch.attn_metadata, strict=True)  # type: ignore[call-overload]
        )
        print(f"  {batch.phase}: {members}; writes {batch.out_loc.tolist()}")
        return super().forward_batch(batch, args)


def tell(case: Case, kit: Kit = RIGHT) -> bool:
    """Run the case again, printing its batches; whether all went right."""
    print(describe(case))
    try:
        outcome = run_case(case, kit._replace(device=type("Telling", (Telling, kit.device), {})))
    except Violation as violation:
        print(f"  {violation}")
        return False
    print(f"  right: at rest after {outcome.turns} turns")
    return True


def size(finding: Finding) -> tuple[int, int, int]:
    case = finding.case
    tokens = sum(shape.prompt + shape.outputs for shape in case.shapes)
    return len(case.shapes), tokens, sum(case.arrivals) + (case.abort is not None)


def as_dict(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "text": finding.text,
        "stream": describe(finding.case),
        "case": to_json(finding.case),
    }


def table(tallies: Mapping[str, Tally]) -> str:
    """Runs by world, as Markdown."""
    lines = ["| world | runs | turns | violations |", "|---|---:|---:|---:|"]
    total = Tally()
    for name, tally in sorted(tallies.items()):
        lines.append(f"| {name} | {tally.runs:,} | {tally.turns:,} | {len(tally.findings):,} |")
        total = total.plus(tally)
    lines.append(f"| all | {total.runs:,} | {total.turns:,} | {len(total.findings):,} |")
    return "\n".join(lines)
