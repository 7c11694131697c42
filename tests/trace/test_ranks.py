"""Ranks that run the same requests record the same run, but for the rank's own number."""

from __future__ import annotations

from minisgl_lite.distributed import DistributedInfo
from minisgl_lite.trace import Recorder

from .worlds import make_scheduler, run_stream


def test_two_ranks_have_equal_frames_but_for_their_number() -> None:
    traces = []
    for rank in range(2):
        scheduler = make_scheduler(budget=6)
        scheduler.engine.ctx.tp_info = DistributedInfo(rank, 2)
        recorder = Recorder(scheduler)
        run_stream(scheduler, 3, overlap=True)
        traces.append(recorder.trace())
    assert {frame["rank"] for frame in traces[0].frames} == {0}
    assert {frame["rank"] for frame in traces[1].frames} == {1}
    assert [f | {"rank": 0} for f in traces[1].frames] == traces[0].frames
