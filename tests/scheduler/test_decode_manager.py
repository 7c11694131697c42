from __future__ import annotations

import pytest
from helpers.managers import ints, make_managers, uids

from minisgl_lite.core import Req, SamplingParams
from minisgl_lite.scheduler.decode import DecodeManager


def make_req(uid: int, prompt: int = 4, output: int = 4, cached: int = 0) -> Req:
    params = SamplingParams(max_tokens=output)
    return Req(ints(range(prompt)), uid, cached, output, uid, params, None)


def test_running_requests_stay_in_order_of_arrival() -> None:
    decode = DecodeManager(1)
    reqs = [make_req(uid) for uid in (5, 3, 9, 1)]
    decode.filter_reqs(reqs[:2])
    decode.filter_reqs(reqs[1:])
    assert uids(decode.schedule_next_batch()) == [5, 3, 9, 1]
    decode.filter_reqs(reqs[::-1])  # known ones keep their place
    assert uids(decode.schedule_next_batch()) == [5, 3, 9, 1]
    decode.remove_req(reqs[1])
    decode.filter_reqs([reqs[1]])
    assert uids(decode.schedule_next_batch()) == [5, 9, 1, 3]


def test_requests_without_another_step_leave() -> None:
    decode = DecodeManager(1)
    a, b = make_req(0, output=1), make_req(1, output=2)
    for req in (a, b):
        req.complete_one()
    decode.filter_reqs([a, b])
    batch = decode.schedule_next_batch()
    assert uids(batch) == [1] and batch.is_decode
    b.complete_one()
    decode.filter_reqs(batch.reqs)
    assert not decode.runnable and decode.schedule_next_batch() is None


def test_a_batch_keeps_its_requests_when_others_arrive() -> None:
    decode = DecodeManager(1)
    decode.filter_reqs([make_req(0)])
    batch = decode.schedule_next_batch()
    decode.filter_reqs([make_req(1)])
    assert uids(batch) == [0]


def test_abort_takes_the_request_out_once() -> None:
    decode = DecodeManager(1)
    a = make_req(7)
    decode.filter_reqs([a])
    assert decode.abort_req(8) is None
    assert decode.abort_req(7) is a
    assert decode.abort_req(7) is None
    decode.remove_req(a)  # unknown ones are ignored
    assert not decode.runnable


@pytest.mark.parametrize(
    ("page_size", "prompt", "output", "steps", "inflight"),
    [
        (1, 4, 4, 1, 3),  # 7 of 8 tokens are written, 4 of them already
        (1, 4, 4, 3, 1),
        (4, 4, 4, 1, 4),
        (4, 4, 5, 1, 4),
        (4, 4, 6, 1, 8),
        (4, 3, 2, 1, 0),  # the last page has room for all that will be written
        (4, 4, 2, 1, 4),
        (16, 4, 4, 1, 0),
    ],
)
def test_inflight_tokens_are_the_pages_still_to_be_asked_for(
    page_size: int, prompt: int, output: int, steps: int, inflight: int
) -> None:
    decode = DecodeManager(page_size)
    req = make_req(0, prompt, output)
    for _ in range(steps):
        req.complete_one()
    decode.filter_reqs([req])
    assert decode.inflight_tokens == inflight


def test_an_admitted_request_never_lacks_a_page() -> None:
    """Whatever arrives beside it, each step finds its pages, to the very last one."""
    for page_size in (1, 2, 4):
        m = make_managers(12 // page_size, page_size)
        for uid in range(12):
            m.add(uid, [uid % 3] * (1 + uid % 5), max_tokens=1 + uid % 4)
        steps = 0
        while (batch := m.schedule(budget=3)) is not None:
            m.run(batch)
            steps += 1
            assert steps < 100
        m.cache.check_integrity()
        assert m.table.available_size == 8
