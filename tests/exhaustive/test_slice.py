"""A part of the sweep, the same each time: some streams of every setting of every world."""

from __future__ import annotations

from exhaustive.report import bound, describe
from exhaustive.sweep import run_sample, sample
from exhaustive.worlds import WORLDS, settings

STREAMS = 4  # of each setting: a fault in any of them shows in one; `make exhaustive` runs all


def test_no_stream_of_the_slice_goes_wrong() -> None:
    tallies = run_sample(STREAMS)
    findings = [finding for tally in tallies.values() for finding in tally.findings]
    first = min(findings, key=lambda f: sum(s.longest for s in f.case.shapes), default=None)
    assert first is None, f"{len(findings)} violations; {first.text}: {describe(first.case)}"
    assert sum(tally.runs for tally in tallies.values()) > 2_500


def test_the_slice_has_every_setting() -> None:
    seen = {block.setting for block, *_ in sample(1)}
    assert seen == {setting for world in WORLDS.values() for setting in settings(world)}


def test_the_bound_is_told() -> None:
    text = bound()
    assert all(f"({name}) {world}" in text for name, world in WORLDS.items())
