"""``free_slots`` set by hand while a recorder watches: the trace follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from minisgl_lite.hooks import Listener
from minisgl_lite.scheduler import Scheduler
from minisgl_lite.trace import Recorder, Trace

from .agreement import assert_same
from .worlds import finish, make_scheduler, send

Change = Callable[[torch.Tensor], torch.Tensor]
CHANGES: dict[str, Change] = {
    "reversed": lambda free: free.flip(0),
    "fewer": lambda free: free[2:],
    "none": lambda free: free[:0],
    "64 bit": lambda free: free.flip(0).long(),
}


def change(scheduler: Scheduler, how: Change) -> None:
    scheduler.cache_manager.free_slots = how(scheduler.cache_manager.free_slots)


def check(scheduler: Scheduler, recorder: Recorder) -> Trace:
    """The trace's queue is the engine's, also through a page and back."""
    trace = recorder.trace()
    for read in (trace, Trace.from_widget(trace.to_widget()), Trace.from_dict(trace.to_dict())):
        free = read.state_at(len(read) - 1).free
        assert free == scheduler.cache_manager.free_slots.tolist()
    return trace


@pytest.mark.parametrize("how", CHANGES.values(), ids=CHANGES)
def test_before_the_first_turn(how: Change) -> None:
    scheduler = make_scheduler()
    recorder = Recorder(scheduler)
    change(scheduler, how)
    trace = check(scheduler, recorder)
    assert [frame["phase"] for frame in trace.frames] == ["receive"]


@pytest.mark.parametrize("how", CHANGES.values(), ids=CHANGES)
def test_between_two_turns(how: Change) -> None:
    scheduler = make_scheduler()
    recorder = Recorder(scheduler)
    send(scheduler, 0, range(1, 6), 2)
    finish(scheduler)
    change(scheduler, how)
    check(scheduler, recorder)
    change(scheduler, lambda free: torch.arange(2, 8) * 4)  # page 0 is in the tree, page 1 lost
    check(scheduler, recorder)
    send(scheduler, 1, range(20, 27), 3)
    finish(scheduler)
    trace = check(scheduler, recorder)
    assert [frame["turn"] for frame in trace.frames] == sorted(f["turn"] for f in trace.frames)
    assert len({(frame["turn"], frame["sub"]) for frame in trace.frames}) == len(trace)


@pytest.mark.parametrize("event", ["on_allocate", "on_prepare", "on_release", "on_admit"])
def test_in_the_middle_of_a_turn(event: str) -> None:
    scheduler = make_scheduler()

    def turn_round(self: Listener, *args: Any) -> None:
        change(scheduler, lambda free: free.flip(0))

    scheduler.hooks.attach(type("Turns", (Listener,), {event: turn_round})(), order=40)
    recorder = Recorder(scheduler)
    for uid in range(3):
        send(scheduler, uid, range(10 * uid, 10 * uid + 6), 3)
    finish(scheduler)
    check(scheduler, recorder)


def test_a_replayed_run_agrees_with_the_engine_in_all_else() -> None:
    scheduler = make_scheduler()
    recorder = Recorder(scheduler)
    change(scheduler, lambda free: free.flip(0))
    send(scheduler, 0, range(1, 10), 3)
    send(scheduler, 1, range(1, 10), 3)
    for _ in range(2):
        scheduler.normal_loop()
        trace = recorder.trace()
        assert_same(trace.state_at(len(trace) - 1), scheduler)
