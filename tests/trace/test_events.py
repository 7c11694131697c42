"""Frames are found by the names of events."""

from __future__ import annotations

import pytest

from minisgl_lite.trace import KVSanitizer, Recorder, Trace

from .worlds import abort, finish, make_scheduler, send


@pytest.fixture(scope="module")
def trace() -> Trace:
    scheduler = make_scheduler(num_pages=6, budget=6, script=7, rows=2)
    sanitizer = KVSanitizer(scheduler, stop=False)
    recorder = Recorder(scheduler, sanitizer=sanitizer)
    send(scheduler, 1, [1, 2, 3, 4, 5], 4)
    scheduler.normal_loop()
    send(scheduler, 2, [1, 2, 3, 4, 6, 8], 5)
    send(scheduler, 3, [], 5)
    scheduler.normal_loop()
    send(scheduler, 4, range(20, 29), 4)
    finish(scheduler)
    send(scheduler, 5, [20, 21, 22, 23, 5, 6, 7, 8, 9], 9)
    for _ in range(3):
        scheduler.normal_loop()
    abort(scheduler, 5)
    scheduler.engine.kv_cache.k_cache(0).fill_(0.5)
    send(scheduler, 6, [1, 2, 3, 4, 5], 2)
    finish(scheduler)
    return recorder.trace()


def test_the_forms(trace: Trace) -> None:
    def frame(event: str) -> dict[str, object]:
        return trace.frames[trace.find(event)]

    assert trace.find("start") == 0
    assert trace.find("end") == len(trace) - 1
    assert (frame("turn:3")["turn"], frame("turn:3")["sub"]) == (3, 0)
    assert frame("evict")["phase"] == "evict"
    assert frame("admit:r2")["admit"][0]["uid"] == 2  # type: ignore[index]
    assert frame("hit:r2") == frame("admit:r2")
    assert frame("chunk:r4")["admit"][0]["chunk"]  # type: ignore[index]
    assert frame("prepare:r1")["batch_info"]["phase"] == "prefill"  # type: ignore[index]
    assert frame("first-decode:r1")["batch_info"]["phase"] == "decode"  # type: ignore[index]
    assert frame("first-decode:r1")["batch_info"]["uids"] == [1, 2]  # type: ignore[index]
    assert frame("allocate:r1")["alloc"][0][0] == 1  # type: ignore[index]
    assert frame("release:r1")["release"][0]["finished"] is False  # type: ignore[index]
    assert frame("release:r1#2")["release"][0]["finished"] is True  # type: ignore[index]
    assert frame("refuse:r4")["refuse"]["uid"] == 4  # type: ignore[index]
    assert frame("reject:r3")["reject"][0]["uid"] == 3  # type: ignore[index]
    assert frame("abort:r5")["reqs"]["5"]["state"] == "aborted"  # type: ignore[index]
    assert any(entry[:1] == [1] and entry[3] for entry in frame("finish:r1")["tokens"])  # type: ignore[attr-defined]
    assert any(op[0] == "split" for op in frame("split")["tree"])  # type: ignore[attr-defined]
    assert frame("fault")["fault"]["kind"] == "overwritten"  # type: ignore[index]
    assert "r6 reads slot" in frame("fault:r6")["fault"]["text"]  # type: ignore[index]


def test_output_tokens_are_counted_from_0(trace: Trace) -> None:
    found = [trace.find(f"token:r1:{i}") for i in range(4)]
    assert found == sorted(set(found))
    assert found[3] == trace.find("finish:r1")
    with pytest.raises(ValueError, match="does not happen in this trace"):
        trace.find("token:r1:4")


def test_second_ones(trace: Trace) -> None:
    assert trace.find("forward") == trace.find("forward#1") < trace.find("forward#2")
    assert trace.find("first-decode:r1#2") > trace.find("first-decode:r1")


@pytest.mark.parametrize(
    "event",
    ["", "Start", "start:r1", "turn", "turn:r1", "token:r1", "token:3", "prepare:1", "admit:r1:2"],
)
def test_what_is_no_event_says_what_is(trace: Trace, event: str) -> None:
    with pytest.raises(ValueError, match="is not one of: start, end, turn:N"):
        trace.find(event)


@pytest.mark.parametrize("event", ["admit:r77", "turn:900", "evict#40", "end#2"])
def test_what_does_not_happen_is_said(trace: Trace, event: str) -> None:
    with pytest.raises(ValueError, match="does not happen in this trace"):
        trace.find(event)
