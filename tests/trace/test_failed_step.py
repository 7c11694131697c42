"""A step that raises: the trace and the sanitizer stay in step with the scheduler."""

from __future__ import annotations

import pytest

from minisgl_lite.trace import KVSanitizer, Recorder, State

from .agreement import assert_same
from .worlds import make_scheduler, send


@pytest.mark.parametrize("overlap", [False, True])
def test_a_failed_step_gives_back_its_pages_in_the_trace_too(overlap: bool) -> None:
    scheduler = make_scheduler(page_size=1, num_pages=16)
    sanitizer = KVSanitizer(scheduler)
    recorder = Recorder(scheduler, sanitizer=sanitizer)
    state = State(recorder.meta)
    forward, calls, data = scheduler.engine.forward_batch, 0, None

    def failing(*args: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise MemoryError("no room")
        return forward(*args)

    scheduler.engine.forward_batch = failing
    send(scheduler, 0, [1, 2, 3, 4], 4)
    raised = 0
    for turn in range(12):
        if turn == 6:
            send(scheduler, 1, [1, 2, 3, 5], 4)
        try:
            if overlap:
                data = scheduler.overlap_loop(data)
            else:
                scheduler.normal_loop()
        except MemoryError:
            raised += 1
            data = None if not overlap else scheduler._ongoing
        for frame in recorder.take()[0]:
            state.apply(frame)
        assert_same(state, scheduler)
    assert raised == 1
    assert state.reqs[0].reason == "error: the step failed"
    assert (state.reqs[1].state, state.reqs[1].shown) == ("done", 4)
    assert sanitizer.faults == []
