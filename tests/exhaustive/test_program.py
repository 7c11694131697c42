"""A long sweep: chunks that cover the bound once, a file to go on from, a verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exhaustive import program
from exhaustive.checkpoint import Checkpoint, fingerprint
from exhaustive.faults import FAULTS
from exhaustive.program import CHUNKS, Result, Work, summary, sweep_chunk, tallies, write
from exhaustive.report import from_json
from exhaustive.sweep import Finding, Tally, hunt
from exhaustive.worlds import WORLDS, blocks


def test_chunks_cover_each_block_once() -> None:
    every = [block for number in range(CHUNKS) for block in blocks()[number::CHUNKS]]
    assert sorted(every) == sorted(blocks())


def test_checkpoint_goes_on_after_an_interruption(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path, 4)
    first.add({"chunk": 2, "cpu": 1.0, "worlds": {}})
    first.add({"chunk": 0, "cpu": 1.0, "worlds": {}})
    with first.path.open("a") as file:
        file.write('{"chunk": 3, "cp')  # cut short
    second = Checkpoint(tmp_path, 4)
    assert set(second.done) == {0, 2}
    second.add({"chunk": 1, "cpu": 1.0, "worlds": {}})
    assert set(Checkpoint(tmp_path, 4).done) == {0, 1, 2}
    second.forget()
    assert not Checkpoint(tmp_path, 4).done


def test_checkpoint_of_other_code_is_dropped(tmp_path: Path) -> None:
    old = tmp_path / "done-000000000000-4.jsonl"
    old.write_text('{"chunk": 0}\n')
    assert not Checkpoint(tmp_path, 4).done
    assert not old.exists()
    assert len(fingerprint()) == 12


def test_chunk_survives_the_file_and_is_counted_by_world() -> None:
    entry = json.loads(json.dumps(sweep_chunk(Work(7, 45_000))))
    counted = tallies([entry, entry])
    assert entry["chunk"] == 7
    assert sum(tally.runs for tally in counted.values()) > 0
    for name, tally in counted.items():
        assert tally == Tally(2 * entry["worlds"][name]["runs"], 2 * entry["worlds"][name]["turns"])


def found(name: str) -> tuple[str, int, Finding | None]:
    return name, *hunt(FAULTS[name].kit, FAULTS[name].fits)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "COUNTED", dict.fromkeys(WORLDS, 10))


def whole(**tallies: Tally) -> dict[str, Tally]:
    return {name: tallies.get(name, Tally(10)) for name in WORLDS}


def test_a_whole_sweep_without_a_violation_has_no_problem(tmp_path: Path) -> None:
    result = Result(whole(), [found("double free")], 60.0, complete=True)
    assert result.problems() == []
    assert summary(result).endswith("No violation.\n")
    write(result, tmp_path)
    data = json.loads((tmp_path / "summary.json").read_text())
    assert data["runs"] == dict.fromkeys(WORLDS, 10) and data["complete"] and data["problems"] == []
    assert from_json(data["faults"]["double free"]["case"])


def test_what_makes_a_sweep_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = found("double free")
    finding = fault[2]
    assert finding is not None
    wrong = Result(whole(a=Tally(10, 0, (finding,))), [], 1.0, complete=True)
    assert wrong.problems()[0].startswith(finding.text)
    fewer = Result(whole(a=Tally(9)), [], 1.0, complete=True)
    assert fewer.problems() == ["world a: 9 runs, not 10"]
    part = Result({"a": Tally(3)}, [], 1.0, complete=False)
    assert part.problems() == ["only 3 runs of the bound were made"]
    missed = Result(whole(), [("double free", 9, None)], 1.0, complete=True)
    assert missed.problems() == ["the planted fault 'double free' was not found in 9 runs"]
    reason = FAULTS["double free"]._replace(unseen="it hides")
    monkeypatch.setitem(program.FAULTS, "double free", reason)
    seen = Result(whole(), [fault], 1.0, complete=True)
    assert seen.problems() == ["the planted fault 'double free' was found"]


def test_sweep_goes_on_where_the_checkpoint_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "FAULTS", {})
    done = {"chunk": 0, "cpu": 2.0, "worlds": {"a": {"runs": 5, "turns": 9, "findings": []}}}
    Checkpoint(tmp_path, 20_000).add(done)
    result = program.sweep(tmp_path, workers=1, chunks=20_000, first=2)
    assert result.tallies["a"].runs == 5 + sweep_chunk(Work(1, 20_000))["worlds"]["a"]["runs"]
    assert result.cpu > 2.0 and not result.complete and not result.findings
    assert set(Checkpoint(tmp_path, 20_000).done) == {0, 1}
