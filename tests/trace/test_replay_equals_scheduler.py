"""After every turn the replayed state is the scheduler's own, whatever happens in the stream."""

from __future__ import annotations

import itertools

import pytest

from minisgl_lite.trace import KVSanitizer, Recorder, State

from .agreement import assert_same
from .worlds import EOS, make_scheduler, run_stream

CASES = [
    *itertools.product((1, 2, 4), ("naive", "radix"), (False, True), (5, 64), ((), (2, 4))),
]


@pytest.mark.parametrize(("page_size", "cache_type", "overlap", "budget", "graph_bs"), CASES)
def test_replayed_state_is_the_schedulers_after_every_turn(
    page_size: int, cache_type: str, overlap: bool, budget: int, graph_bs: tuple[int, ...]
) -> None:
    for seed in range(4):
        scheduler = make_scheduler(
            page_size=page_size,
            num_pages=-(-28 // page_size),
            rows=3,
            cache_type=cache_type,
            budget=budget,
            eos=(EOS, 0, 1, 2),
            late=overlap and seed % 2 == 1,
            graph_bs=graph_bs,
        )
        sanitizer = KVSanitizer(scheduler)
        recorder = Recorder(scheduler, sanitizer=sanitizer)
        state = State(recorder.meta)

        def check(recorder: Recorder = recorder, state: State = state) -> None:
            for frame in recorder.take()[0]:
                state.apply(frame)
                assert state.balance().holds
            assert_same(state, recorder._scheduler)

        run_stream(scheduler, seed, overlap=overlap, after_turn=check)
        assert sanitizer.faults == []
        assert not state.live()
