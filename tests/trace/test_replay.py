"""Any state of a trace, forward and back, and what follows from it for each slot."""

from __future__ import annotations

import random
from typing import Any

import pytest

from minisgl_lite.trace import Recorder, State, Trace

from .agreement import assert_same
from .worlds import EOS, abort, finish, make_scheduler, run_stream, send


def visible(state: State) -> Any:
    return (
        state.free,
        [list(row) for row in state.table],
        {uid: dict(vars(req)) for uid, req in state.reqs.items()},
        {n: (dict(vars(node)), sorted(node.children)) for n, node in state.tree.items()},
        state.slots(),
        state.written_now(),
        state.reading(),
        state.turn,
    )


@pytest.fixture(scope="module")
def trace() -> Trace:
    scheduler = make_scheduler(num_pages=12, eos=EOS, budget=6)
    recorder = Recorder(scheduler)
    run_stream(scheduler, 7, num_reqs=14, overlap=True)
    return recorder.trace()


def test_any_state_in_any_order_is_that_of_a_plain_replay(trace: Trace) -> None:
    state, forward = State(trace.meta), []
    forward.append(visible(state))
    for frame in trace.frames:
        state.apply(frame)
        forward.append(visible(state))
    replay = trace.replay()
    order = list(range(-1, len(trace)))
    random.Random(3).shuffle(order)
    for index in [*order, *reversed(range(-1, len(trace)))]:
        assert visible(replay.state_at(index)) == forward[index + 1]


def test_a_state_is_the_callers_own(trace: Trace) -> None:
    replay = trace.replay()
    before = visible(replay.state_at(30))
    state = replay.state_at(30)
    for frame in trace.frames[31:]:
        state.apply(frame)
    assert visible(replay.state_at(30)) == before


def test_frames_outside_are_refused(trace: Trace) -> None:
    for index in (-2, len(trace)):
        with pytest.raises(ValueError, match=f"frame {index} is not in this trace"):
            trace.state_at(index)


def states_of(state: State) -> str:
    """One letter per slot of the managed pool."""
    return "".join(info.state[0] for info in state.slots()[: -state.page_size])


def test_slots_from_free_to_shared_to_evictable() -> None:
    scheduler = make_scheduler(script=7)
    recorder = Recorder(scheduler)
    send(scheduler, 0, [1, 2, 3, 4, 5], 3)
    scheduler.normal_loop()
    send(scheduler, 1, [1, 2, 3, 4, 6, 7], 4)
    scheduler.normal_loop()
    finish(scheduler)
    trace = recorder.trace()
    at = trace.find

    assert states_of(trace.state_at(at("admit:r0"))) == "f" * 32
    assert states_of(trace.state_at(at("allocate:r0"))) == "o" * 8 + "f" * 24
    # Registered: locked by one request, then held by two, then by nobody.
    assert states_of(trace.state_at(at("release:r0"))) == "l" * 4 + "o" * 4 + "f" * 24
    assert states_of(trace.state_at(at("allocate:r1"))) == "s" * 4 + "o" * 8 + "f" * 20
    assert states_of(trace.state_at(at("release:r0#2"))) == "l" * 4 + "f" * 4 + "o" * 4 + "f" * 20
    assert states_of(trace.state_at(at("end"))) == "e" * 4 + "f" * 4 + "e" * 4 + "f" * 20

    shared = trace.state_at(at("allocate:r1")).slots()
    assert shared[2].holders == [(0, 2), (1, 2)]
    assert shared[2].node == 1
    assert shared[9].holders == [(1, 5)]
    assert [info.state for info in shared[32:]] == ["dummy"] * 4


def test_written_now_and_reading_are_the_steps_own() -> None:
    scheduler = make_scheduler(script=7, graph_bs=(4,))
    recorder = Recorder(scheduler)
    send(scheduler, 0, [1, 2, 3, 4, 5], 3)
    scheduler.normal_loop()
    send(scheduler, 1, [1, 2, 3, 4, 6, 7], 4)
    scheduler.normal_loop()
    scheduler.normal_loop()
    trace = recorder.trace()
    assert trace.state_at(trace.find("prepare:r1")).written_now() == []
    prefill = trace.state_at(trace.find("forward#2"))
    assert prefill.written_now() == [8, 9]
    assert prefill.reading() == {1: [0, 1, 2, 3, 8, 9]}
    decode = trace.state_at(trace.find("forward#3"))
    assert decode.written_now() == [5, 10, 32, 32]
    assert decode.reading() == {0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 3, 8, 9, 10]}
    marks = decode.slots()
    assert [info.slot for info in marks if info.written_now] == [5, 10, 32]
    assert [info.slot for info in marks if info.reading] == [0, 1, 2, 3, 4, 5, 8, 9, 10]


def test_balance_names_a_lost_and_a_doubly_owned_slot() -> None:
    scheduler = make_scheduler(script=7)
    recorder = Recorder(scheduler)
    send(scheduler, 0, [1, 2, 3, 4, 5], 3)
    scheduler.normal_loop()
    state = recorder.trace().state_at(len(recorder.frames) - 1)
    assert state.balance() == (24, 4, 4, 32)
    assert state.balance().holds and state.conflicts() == []
    state.free = [*state.free[1:], 0]
    assert not state.balance().holds or state.conflicts()
    assert state.conflicts() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert state.slots()[8].state == "lost"


@pytest.mark.parametrize("cache_type", ["naive", "radix"])
def test_a_recorder_attached_late_tells_what_is_there(cache_type: str) -> None:
    scheduler = make_scheduler(cache_type=cache_type, budget=6, num_pages=12)
    for uid, length in enumerate((5, 9, 12, 3)):
        send(scheduler, uid, range(1, length), 4)
    for _ in range(3):
        scheduler.normal_loop()
    recorder = Recorder(scheduler)
    state = State(recorder.meta)

    def follow() -> None:
        for frame in recorder.take()[0]:
            state.apply(frame)
        assert_same(state, scheduler)

    follow()
    abort(scheduler, 1)
    while scheduler.has_work:
        scheduler.normal_loop()
        follow()
    assert {req.shown for req in state.reqs.values() if req.state == "done"} == {4}


def test_taken_frames_come_once_and_with_their_new_words() -> None:
    scheduler = make_scheduler(script=7)
    recorder = Recorder(scheduler, vocab=lambda token: bytes([token]))
    assert recorder.take() == ([], {})
    send(scheduler, 0, [1, 2], 3)
    scheduler.normal_loop()
    frames, words = recorder.take()
    assert [frame["phase"] for frame in frames][:2] == ["receive", "admit"]
    assert words == {1: b"\x01", 2: b"\x02", 7: b"\x07"}
    scheduler.normal_loop()
    frames, words = recorder.take()
    assert len(frames) > 0 and words == {}
    assert recorder.take() == ([], {})
