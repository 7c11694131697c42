"""The whole sweep, in a few processes, in chunks that an interruption does not lose."""

from __future__ import annotations

import gc
import json
import multiprocessing
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from minisgl_lite.utils import require

from .checkpoint import Checkpoint
from .faults import FAULTS, LEFT_OUT
from .report import as_dict, bound, describe, from_json, size, table, to_json
from .sweep import Finding, Player, Tally, hunt
from .worlds import COUNTED, blocks

CHUNKS = 960
ENOUGH = 20
"""Violations after which a sweep stops."""


class Work(NamedTuple):
    """A chunk of the bound: each ``chunks``-th block from ``number`` on."""

    number: int
    chunks: int


def start_worker() -> None:
    """One thread each; what was made so far is not looked through for garbage."""
    torch.set_num_threads(1)
    blocks()
    gc.freeze()
    gc.set_threshold(20_000)


def sweep_chunk(work: Work) -> dict[str, Any]:
    """Run a chunk; what came out, as it is kept in the checkpoint."""
    began = time.process_time()
    players: dict[str, Player] = {}
    for block in blocks()[work.number :: work.chunks]:
        players.setdefault(block.setting.world, Player()).run_block(block)
    worlds = {
        name: {
            "runs": player.runs,
            "turns": player.turns,
            "findings": [(to_json(f.case), f.kind, f.text) for f in player.findings[:ENOUGH]],
        }
        for name, player in players.items()
    }
    return {"chunk": work.number, "cpu": time.process_time() - began, "worlds": worlds}


def hunt_fault(name: str) -> tuple[str, int, Finding | None]:
    fault = FAULTS[name]
    return name, *hunt(fault.kit, fault.fits)


def tallies(entries: Iterable[dict[str, Any]]) -> dict[str, Tally]:
    """By world, from what the checkpoint holds."""
    found: dict[str, Tally] = {}
    for entry in entries:
        for name, world in entry["worlds"].items():
            findings = tuple(Finding(from_json(c), k, t) for c, k, t in world["findings"])
            tally = Tally(world["runs"], world["turns"], findings)
            found[name] = found.get(name, Tally()).plus(tally)
    return found


class Result(NamedTuple):
    tallies: dict[str, Tally]
    faults: list[tuple[str, int, Finding | None]]
    cpu: float
    complete: bool

    @property
    def findings(self) -> list[Finding]:
        every = [finding for tally in self.tallies.values() for finding in tally.findings]
        return sorted(every, key=size)

    @property
    def runs(self) -> int:
        return sum(tally.runs for tally in self.tallies.values())

    def problems(self) -> list[str]:
        """What keeps the sweep from being a success; one line each."""
        lines = [f"{f.text} -- {describe(f.case)}" for f in self.findings[:ENOUGH]]
        for name, runs, finding in self.faults:
            if bool(finding) == bool(FAULTS[name].unseen):
                seen = "was found" if finding else f"was not found in {runs} runs"
                lines.append(f"the planted fault '{name}' {seen}")
        if not self.complete:
            lines.append(f"only {self.runs:,} runs of the bound were made")
        else:
            for name, tally in self.tallies.items():
                if not tally.findings and tally.runs != COUNTED[name]:
                    lines.append(f"world {name}: {tally.runs:,} runs, not {COUNTED[name]:,}")
        return lines


def sweep(folder: Path, workers: int, chunks: int = CHUNKS, first: int | None = None) -> Result:
    """Go through the bound, or its ``first`` chunks, from where the checkpoint stands."""
    tqdm = require("tqdm", extra="notebook").tqdm
    checkpoint = Checkpoint(folder, chunks)
    wanted = range(chunks if first is None else min(first, chunks))
    left = [Work(number, chunks) for number in wanted if number not in checkpoint.done]
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, start_worker) as pool:
        faults = list(tqdm(pool.imap(hunt_fault, FAULTS), "faults", len(FAULTS), disable=None))
        bar = tqdm(total=len(wanted), initial=len(wanted) - len(left), desc="streams", unit="chunk")
        for entry in pool.imap_unordered(sweep_chunk, left):
            checkpoint.add(entry)
            so_far = tallies(checkpoint.done.values())
            bar.update()
            bar.set_postfix(runs=f"{sum(t.runs for t in so_far.values()):,}")
            if sum(len(t.findings) for t in so_far.values()) >= ENOUGH:
                break
        bar.close()
        pool.terminate()
    entries = [checkpoint.done[number] for number in wanted if number in checkpoint.done]
    result = Result(
        tallies(entries), faults, sum(entry["cpu"] for entry in entries), len(entries) == chunks
    )
    if result.complete:
        checkpoint.forget()
    return result


def summary(result: Result) -> str:
    """The outcome, as Markdown."""
    each = 1000 * result.cpu / max(1, result.runs)
    lines = [
        bound(),
        "",
        table(result.tallies),
        "",
        f"{result.runs:,} runs in {result.cpu / 60:.1f} minutes of one core, {each:.2f} ms a run.",
        "",
        "Faults put in on purpose, and the first stream that shows each:",
        "",
        "| fault | shown by | stream |",
        "|---|---|---|",
    ]
    lines += [_fault_line(name, finding) for name, _, finding in result.faults]
    lines += [f"| {name} | not in these worlds: {why} | |" for name, why in LEFT_OUT.items()]
    problems = result.problems()
    lines += ["", *(f"PROBLEM: {line}" for line in problems)]
    lines.append(f"{len(problems)} problems." if problems else "No violation.")
    return "\n".join(lines) + "\n"


def _fault_line(name: str, finding: Finding | None) -> str:
    if finding is not None:
        return f"| {name} | {finding.text} | {describe(finding.case)} |"
    why = FAULTS[name].unseen
    return f"| {name} | {f'cannot be shown: {why}' if why else 'NOT FOUND'} | |"


def write(result: Result, folder: Path) -> None:
    """summary.md for readers, summary.json for programs."""
    (folder / "summary.md").write_text(summary(result), encoding="utf-8")
    data = {
        "complete": result.complete,
        "runs": {name: tally.runs for name, tally in result.tallies.items()},
        "turns": {name: tally.turns for name, tally in result.tallies.items()},
        "cpu_seconds": result.cpu,
        "findings": [as_dict(finding) for finding in result.findings],
        "faults": {name: as_dict(f) if f else None for name, _, f in result.faults},
        "problems": result.problems(),
    }
    (folder / "summary.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
