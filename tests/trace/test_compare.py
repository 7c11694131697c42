"""Where two runs first differ."""

from __future__ import annotations

import copy
from typing import Any

from minisgl_lite.trace import Recorder, Trace

from .worlds import finish, make_scheduler, run_stream, send


def a_trace(*, overlap: bool = False, **kwargs: Any) -> Trace:
    scheduler = make_scheduler(**kwargs)
    recorder = Recorder(scheduler)
    run_stream(scheduler, 4, aborts=False, overlap=overlap)
    return recorder.trace()


def test_equal_runs_differ_nowhere() -> None:
    assert a_trace().compare(a_trace()) is None


def test_other_settings_with_the_same_tokens_differ_by_turn_only() -> None:
    base = a_trace(num_pages=16)
    for other in (
        a_trace(num_pages=16, cache_type="naive"),
        a_trace(num_pages=64, page_size=1),
        a_trace(num_pages=16, overlap=True, late=True),
        a_trace(num_pages=16, budget=5),
    ):
        difference = base.compare(other)
        assert difference is not None
        assert (difference.kind, difference.uid) == ("turn", None)
        assert difference.left != difference.right


def test_a_token_that_differs_is_named_by_request_and_number() -> None:
    traces = []
    for script in ([7, 8, 9, 10], [7, 8, 5, 10]):
        scheduler = make_scheduler(script={0: [1, 1, 1, 1], 1: script})
        recorder = Recorder(scheduler)
        send(scheduler, 0, [1, 2, 3], 4)
        send(scheduler, 1, [1, 2, 4], 4)
        finish(scheduler)
        traces.append(recorder.trace())
    difference = traces[0].compare(traces[1])
    assert difference is not None
    assert (difference.kind, difference.uid, difference.index) == ("token", 1, 2)
    assert (difference.left, difference.right) == (9, 5)
    assert difference.left_frame == traces[0].find("token:r1:2")
    assert str(difference) == "r1, output token 2: 9 in the first, 5 in the second"


def test_a_token_that_is_missing() -> None:
    traces = []
    for eos in ((), (9,)):
        scheduler = make_scheduler(script=[7, 8, 9, 10], eos=eos)
        recorder = Recorder(scheduler)
        send(scheduler, 0, [1, 2, 3], 4)
        finish(scheduler)
        traces.append(recorder.trace())
    difference = traces[0].compare(traces[1])
    assert difference is not None
    assert (difference.index, difference.left, difference.right) == (3, 10, None)
    assert difference.right_frame is None


def test_the_first_frame_that_differs_is_found_with_what_differs() -> None:
    left = a_trace()
    right = Trace(left.meta, copy.deepcopy(left.frames))
    at = left.find("allocate#2")
    right.frames[at]["free"]["take"] += 1
    difference = left.compare(right)
    assert difference is not None
    assert (difference.left_frame, difference.right_frame) == (at, at)
    assert difference.turn == left.frames[at]["turn"]
    assert list(difference.left) == ["free"]


def test_a_run_that_goes_on_differs_where_the_other_ends() -> None:
    left = a_trace()
    right = Trace(left.meta, left.frames[:-1])
    for pair in ((left, right), (right, left)):
        difference = pair[0].compare(pair[1])
        assert difference is not None
        assert None in (difference.left_frame, difference.right_frame)
        assert difference.turn == left.frames[-1]["turn"]


def test_equal_ids_that_mean_other_texts_differ() -> None:
    """As two runs on two tokenizers do; their digests differ, too."""
    one = a_trace()
    words = dict.fromkeys((token for f in one.frames for _, token, *_ in f.get("tokens", ())), b"a")
    left = Trace(one.meta, one.frames, words)
    token = max(words)
    right = Trace(one.meta, one.frames, words | {token: b"b"})
    assert left.compare(Trace(one.meta, one.frames, dict(words))) is None
    difference = left.compare(right)
    assert difference is not None
    assert (difference.kind, difference.index) == ("vocab", token)
    assert (difference.left, difference.right) == (b"a", b"b")
    assert str(difference) == f"the bytes of token {token}: b'a' in the first, b'b' in the second"
    fewer = Trace(one.meta, one.frames, {})
    missing = left.compare(fewer)
    assert missing is not None and (missing.index, missing.right) == (min(words), None)


def test_what_happened_is_told_before_what_the_tokens_mean() -> None:
    left = Trace(a_trace().meta, a_trace().frames, {1: b"a"})
    right = Trace(left.meta, left.frames[:-1], {1: b"b"})
    difference = left.compare(right)
    assert difference is not None and difference.kind == "turn"
