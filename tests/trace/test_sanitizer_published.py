"""The sanitizer over the published behaviours: those that corrupt are found, the others are not."""

from __future__ import annotations

import itertools

import pytest

from minisgl_lite.engine.scripted import ScriptedEngine
from minisgl_lite.scheduler import MessageQueue, SchedulerConfig
from minisgl_lite.teaching.published import published_scheduler
from minisgl_lite.trace import KVSanitizer, Recorder, Trace

from .worlds import run_stream

FOUND = [
    ("stale-rows", False, "freed-in-use"),
    ("late-abort", True, "stale-read"),
    ("row-reuse", True, "wrong-token"),
    ("cold-partial-hits", False, None),
    ("set-order", True, None),
]


@pytest.mark.parametrize(("name", "overlap", "kind"), FOUND)
def test_a_published_behaviour_that_corrupts_is_found(
    name: str, overlap: bool, kind: str | None
) -> None:
    kinds: set[str] = set()
    for page_size, seed in itertools.product((1, 4), range(15 if kind else 4)):
        engine = ScriptedEngine(
            28 // page_size, page_size, max_running_req=3, script=None, late=overlap
        )
        config = SchedulerConfig(
            page_size=page_size, max_running_req=3, max_extend_tokens=6, eos_token_id=(0, 1, 2, 50)
        )
        scheduler = published_scheduler(name)(config, engine, MessageQueue())
        sanitizer = KVSanitizer(scheduler, stop=False)
        recorder = Recorder(scheduler, sanitizer=sanitizer)
        run_stream(scheduler, seed, overlap=overlap)
        kinds |= {fault.kind for fault in sanitizer.faults}
        trace = recorder.trace()
        faults = [frame["fault"] for frame in trace.frames if "fault" in frame]
        assert bool(faults) == bool(sanitizer.faults)
        if faults:
            # A run that went wrong is still a trace: it replays, and keeps its faults in a page.
            trace.state_at(len(trace) - 1).slots()
            assert Trace.from_widget(trace.to_widget()).frames == trace.frames
    assert (kind in kinds) if kind else not kinds
