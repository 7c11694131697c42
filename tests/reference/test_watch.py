"""A recorder and a sanitizer on mini-sglang's own managers see what they see on ours."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.world import World

from minisgl_lite.engine.scripted import ScriptedEngine
from minisgl_lite.hooks import HookError
from minisgl_lite.trace import KVSanitizer, Recorder, Trace
from tests.reference.pairs import Side
from tests.reference.streams import Stream, draw
from tests.teaching.sides import make_side, minisgl

pytestmark = pytest.mark.reference

blocks = pytest.mark.parametrize("first", range(0, 60, 20))


@pytest.fixture(autouse=True)
def clone() -> Any:
    return minisgl()


def record(side: str, stream: Stream) -> Trace:
    """The trace of the stream up to its end, or to the turn before an error."""
    one = Side(side, stream, engine=ScriptedEngine)
    recorder = Recorder(one.world.scheduler, vocab={i: str(i) for i in range(8)})
    turn = 0
    while turn <= stream.last_turn or one.world.busy:
        one.feed(turn)
        before = len(recorder.frames)
        try:
            one.world.step()
        except HookError:
            raise
        except (AssertionError, RuntimeError):
            del recorder.frames[before:]
            break
        turn += 1
    return recorder.trace()


@blocks
@pytest.mark.parametrize("aborts", [False, True])
def test_a_recorder_writes_the_same_trace_byte_for_byte(first: int, aborts: bool) -> None:
    for seed in range(first, first + 20):
        stream = draw(seed, aborts=aborts)
        ours, theirs = record("all", stream), record("minisgl", stream)
        difference = ours.compare(theirs)
        assert difference is None, f"seed {seed}: {difference}"
        assert ours.digest() == theirs.digest(), f"seed {seed}"


def stale_read(side: str) -> World:
    world = make_side(side, 8, 4)
    world.add(0, range(1, 10), max_tokens=1)
    world.add(1, range(1, 10), max_tokens=3)
    return world


def test_the_sanitizer_finds_the_published_stale_row() -> None:
    found = {}
    for side in ("minisgl", "stale-rows", "corrected"):
        world = stale_read(side)
        sanitizer = KVSanitizer(world.scheduler, stop=False)
        world.step()
        world.add(2, range(20, 34), max_tokens=1)
        world.run()
        found[side] = [fault.text for fault in sanitizer.faults]
    assert found["minisgl"] == found["stale-rows"]
    assert found["minisgl"][0].startswith("step 1: page 3 (slot 12) was freed, but r1 lives")
    assert found["corrected"] == []
