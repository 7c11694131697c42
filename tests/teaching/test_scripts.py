"""The scripts of the package: one for each published behaviour, right on ours, wrong with it, and
step for step the same on mini-sglang itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from minisgl_lite.cli import main
from minisgl_lite.teaching.published import PUBLISHED
from minisgl_lite.teaching.record import SCRIPTS, Recorded, find_script, record_script
from minisgl_lite.trace import Trace
from tests.teaching.sides import minisgl


class Shown(NamedTuple):
    """What a script shows. ``with_it``: behaviours that make ours equal to the published one."""

    with_it: tuple[str, ...]
    faults: tuple[str, ...]
    """Kinds that the sanitizer finds, in order of first appearance."""


SHOWN = {
    "token-wise-admission": Shown(("token-wise-admission",), ()),
    "stale-rows": Shown(("stale-rows",), ("freed-in-use", "stale-read")),
    "cold-partial-hits": Shown(("cold-partial-hits",), ()),
    "set-order": Shown((), ()),
    "late-abort": Shown(("late-abort", "stale-rows"), ("freed-while-cached", "stale-read")),
    "early-finish": Shown(("early-finish",), ()),
    "row-reuse": Shown(("row-reuse", "early-finish"), ("wrong-token",)),
}

each = pytest.mark.parametrize("name", SHOWN)


def faults_of(recorded: Recorded) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fault.kind for fault in recorded.faults))


def test_there_is_one_script_for_each_behaviour() -> None:
    assert list(SHOWN) == PUBLISHED.supported_names()
    assert {path.stem for path in SCRIPTS.iterdir() if path.suffix == ".py"} == {
        name.replace("-", "_") for name in SHOWN
    }


@each
def test_a_script_is_short_and_says_what_it_plays(name: str) -> None:
    text = find_script(name).read_text(encoding="utf-8")
    assert text.startswith('"""') and len(text.splitlines()) <= 25


@each
def test_ours_runs_it_to_its_end_and_the_sanitizer_finds_nothing(name: str) -> None:
    ours = record_script(name, check=True)
    assert ours.error is None and ours.faults == ()


@each
def test_with_its_behaviour_the_run_differs(name: str) -> None:
    """But for the order of a set: ``record_script`` sorts decode batches, so that runs compare."""
    published = record_script(name, behaviours=[name], check=True)
    difference = record_script(name, check=True).trace.compare(published.trace)
    assert (difference is None) == (name == "set-order")
    assert faults_of(published) == SHOWN[name].faults


@each
def test_the_behaviours_named_are_all_that_matter(name: str) -> None:
    few = record_script(name, behaviours=SHOWN[name].with_it, check=True)
    whole = record_script(name, behaviours=PUBLISHED.supported_names(), check=True)
    assert few.trace.digest() == whole.trace.digest()


def test_a_set_orders_the_batch_in_more_than_one_way() -> None:
    orders, kept = set(), []
    for _ in range(20):
        made = record_script("set-order", behaviours=["set-order"], sort=False)
        kept.append(made.trace)
        orders.add(decode_uids(made))
    assert len(orders) > 1
    assert {decode_uids(record_script("set-order", sort=False)) for _ in range(5)} == {(1, 2, 3, 4)}


def decode_uids(recorded: Recorded) -> tuple[int, ...]:
    frame = recorded.trace.frames[recorded.trace.find("first-decode")]
    return tuple(frame["batch_info"]["uids"])


@pytest.mark.reference
@each
def test_mini_sglang_itself_leaves_the_same_trace(name: str) -> None:
    theirs = record_script(name, minisgl=minisgl().root, check=True)
    ours = record_script(name, behaviours=SHOWN[name].with_it, check=True)
    assert faults_of(theirs) == SHOWN[name].faults
    if theirs.error is None:
        assert theirs.trace.digest() == ours.trace.digest()
    else:
        up_to_the_error(theirs, ours)


def up_to_the_error(theirs: Recorded, ours: Recorded) -> None:
    """Ours ends the requests of a step that failed; the published loop is left as it was."""
    assert theirs.error is not None and "Cannot evict 4, only 0" in theirs.error
    assert ours.error is not None and "can't evict 4 tokens: 0 are evictable" in ours.error
    frames: list[Any] = theirs.trace.frames
    assert frames == ours.trace.frames[: len(frames)]
    assert frames[-1]["phase"] == "admit" and len(frames[-1]["admit"]) == 2


@pytest.mark.reference
def test_the_command_records_the_readers_clone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(minisgl().root)
    out = tmp_path / "theirs.json"
    assert main(["record", "stale-rows", "--minisgl", root, "-o", str(out)]) == 0
    assert main(["record", "token-wise-admission", "--minisgl", root, "-o", f"{out}.gz"]) == 0
    said, err = capsys.readouterr()
    assert err == "" and "the run was ended by AssertionError: Cannot evict 4" in said
    whole = record_script("stale-rows", behaviours=PUBLISHED.supported_names())
    assert Trace.load(out).digest() == whole.trace.digest()
