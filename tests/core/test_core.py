from __future__ import annotations

from dataclasses import fields

import pytest
import torch

from minisgl_lite import core
from minisgl_lite.core import Batch, Context, Req, SamplingParams, use_ctx


def make_req(n: int = 5, cached_len: int = 0, output_len: int = 3, uid: int = 0) -> Req:
    return Req(
        input_ids=torch.arange(1, n + 1, dtype=torch.int32),
        table_idx=0,
        cached_len=cached_len,
        output_len=output_len,
        uid=uid,
        sampling_params=SamplingParams(max_tokens=output_len),
        cache_handle=None,
    )


@pytest.fixture
def no_ctx():
    """These tests look at the module's global itself."""
    old, core._GLOBAL_CTX = core._GLOBAL_CTX, None
    yield
    core._GLOBAL_CTX = old


def test_sampling_params_keep_the_five_fields_and_end_in_a_seed() -> None:
    names = [f.name for f in fields(SamplingParams)]
    assert names == ["temperature", "top_k", "top_p", "ignore_eos", "max_tokens", "seed"]
    assert [f.default for f in fields(SamplingParams)] == [0.0, -1, 1.0, False, 1024, None]


@pytest.mark.parametrize(
    ("params", "greedy"),
    [
        (SamplingParams(), True),
        (SamplingParams(temperature=1.0), False),
        (SamplingParams(temperature=1.0, top_k=1), True),
        (SamplingParams(temperature=0.0, top_p=0.5), True),
        (SamplingParams(temperature=1.0, top_k=2), False),
    ],
)
def test_is_greedy(params: SamplingParams, greedy: bool) -> None:
    assert params.is_greedy is greedy


def test_lengths_of_a_new_request() -> None:
    req = make_req(n=5, cached_len=2, output_len=3)
    assert (req.cached_len, req.device_len, req.max_device_len) == (2, 5, 8)
    assert (req.extend_len, req.remain_len, req.can_decode) == (3, 3, True)


def test_complete_one_moves_both_lengths() -> None:
    req = make_req(n=5, output_len=2)
    req.complete_one()
    assert (req.cached_len, req.device_len, req.extend_len, req.remain_len) == (5, 6, 1, 1)
    assert req.can_decode
    req.complete_one()
    assert (req.cached_len, req.device_len, req.remain_len) == (6, 7, 0)
    assert not req.can_decode


def test_append_host_grows_the_ids_and_not_the_callers_tensor() -> None:
    req = make_req(n=3)
    given = req.input_ids
    req.append_host(torch.tensor([9], dtype=torch.int32))
    assert req.input_ids.tolist() == [1, 2, 3, 9]
    assert given.tolist() == [1, 2, 3]
    assert req.device_len == 3


@pytest.mark.parametrize(("cached_len", "n", "output_len"), [(5, 5, 1), (-1, 5, 1), (0, 0, 1)])
def test_lengths_must_be_in_order(cached_len: int, n: int, output_len: int) -> None:
    with pytest.raises(ValueError):
        make_req(n=n, cached_len=cached_len, output_len=output_len)


def test_requests_compare_by_identity() -> None:
    a, b = make_req(), make_req()
    assert a != b and a == a
    assert len({a, b}) == 2


def test_repr_is_one_line_and_names_the_lengths() -> None:
    text = repr(make_req(n=5, cached_len=2))
    assert "\n" not in text
    assert "cached_len=2" in text and "device_len=5" in text


def test_batch_sizes() -> None:
    batch = Batch(reqs=[make_req(), make_req()], phase="decode")
    batch.padded_reqs = [*batch.reqs, make_req(uid=-1)]
    assert (batch.size, batch.padded_size) == (2, 3)
    assert batch.is_decode and not batch.is_prefill


def test_forward_batch_does_not_nest_and_ends_on_errors() -> None:
    ctx = Context(page_size=2)
    batch = Batch(reqs=[], phase="prefill")
    with pytest.raises(RuntimeError):
        _ = ctx.batch
    with ctx.forward_batch(batch):
        assert ctx.batch is batch
        with pytest.raises(RuntimeError), ctx.forward_batch(batch):
            pass
        assert ctx.batch is batch
    with pytest.raises(KeyError), ctx.forward_batch(batch):
        raise KeyError
    with pytest.raises(RuntimeError):
        _ = ctx.batch


def test_a_second_global_context_is_refused(no_ctx: None) -> None:
    with pytest.raises(RuntimeError):
        core.get_global_ctx()
    first = Context(page_size=1)
    core.set_global_ctx(first)
    assert core.get_global_ctx() is first
    with pytest.raises(RuntimeError):
        core.set_global_ctx(Context(page_size=2))
    assert core.get_global_ctx() is first


def test_use_ctx_restores_the_former_one(no_ctx: None) -> None:
    outer, inner = Context(page_size=1), Context(page_size=2)
    with use_ctx(outer):
        with use_ctx(inner):
            assert core.get_global_ctx() is inner
        assert core.get_global_ctx() is outer
        with pytest.raises(KeyError), use_ctx(inner):
            raise KeyError
        assert core.get_global_ctx() is outer
    assert core._GLOBAL_CTX is None
