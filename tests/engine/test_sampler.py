from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers.managers import ints

from minisgl_lite.core import Batch, Req, SamplingParams
from minisgl_lite.engine.sample import Sampler
from minisgl_lite.kvcache.naive_cache import NaiveCacheHandle
from minisgl_lite.scheduler.prefill import ChunkedReq

VOCAB = 8
LOGITS = torch.tensor([0.5, 3.0, 1.0, 2.0, -1.0, 2.5, 0.0, -2.0])
DRAWS = 4000


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def make_req(params: SamplingParams, kind: type[Req] = Req) -> Req:
    return kind(ints([1, 2]), 0, 0, 4, 0, params, NaiveCacheHandle())


def sample(reqs: list[Req], logits: torch.Tensor | None = None, steps: int = 1) -> list[list[int]]:
    """`steps` tokens for each request."""
    sampler = Sampler(torch.device("cpu"), VOCAB)
    rows = LOGITS.expand(len(reqs), -1) if logits is None else logits
    out = []
    for _ in range(steps):
        batch = Batch(reqs=reqs, phase="decode")
        out.append(sampler.sample(rows, sampler.prepare(batch)).tolist())
    return [list(tokens) for tokens in zip(*out, strict=True)]


def frequencies(params: SamplingParams) -> torch.Tensor:
    """How often each token comes, over many requests of one batch."""
    reqs = [make_req(params) for _ in range(DRAWS)]
    tokens = torch.tensor(sample(reqs)).flatten()
    return torch.bincount(tokens, minlength=VOCAB) / DRAWS


def test_greedy_takes_the_likeliest_of_each_row() -> None:
    logits = torch.stack([LOGITS, -LOGITS])
    assert sample([make_req(SamplingParams())] * 2, logits) == [[1], [7]]


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0, top_k=1),
        SamplingParams(temperature=1e-4),
        SamplingParams(temperature=1.0, top_p=1e-6),
        SamplingParams(temperature=0.0, top_p=0.5),
    ],
    ids=["top-k-1", "cold", "tiny-top-p", "greedy-with-top-p"],
)
def test_narrow_settings_take_the_likeliest(params: SamplingParams) -> None:
    assert {token for (token,) in sample([make_req(params)] * 50)} == {1}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_follow_the_tempered_softmax(temperature: float) -> None:
    want = (LOGITS / temperature).softmax(0)
    got = frequencies(SamplingParams(temperature=temperature))
    assert (got - want).abs().max() < 0.04


def test_top_k_keeps_the_k_likeliest() -> None:
    got = frequencies(SamplingParams(temperature=1.0, top_k=3))
    want = torch.zeros(VOCAB)
    want[[1, 3, 5]] = LOGITS[[1, 3, 5]].softmax(0)
    assert (got[want == 0] == 0).all()
    assert (got - want).abs().max() < 0.04


@pytest.mark.parametrize(("top_p", "kept"), [(0.4, [1]), (0.6, [1, 5]), (0.8, [1, 3, 5])])
def test_top_p_keeps_the_likeliest_until_their_sum_reaches_it(
    top_p: float, kept: list[int]
) -> None:
    sums = LOGITS.softmax(0).sort(descending=True).values.cumsum(0)
    assert (sums < top_p).sum() + 1 == len(kept)
    got = frequencies(SamplingParams(temperature=1.0, top_p=top_p))
    want = torch.zeros(VOCAB)
    want[kept] = LOGITS[kept].softmax(0)
    assert (got - want).abs().max() < 0.04
    assert (got[want == 0] == 0).all()


def test_each_row_has_its_own_settings() -> None:
    reqs = [
        make_req(SamplingParams()),
        make_req(SamplingParams(temperature=5.0, top_k=2, seed=1)),
        make_req(SamplingParams(temperature=5.0, seed=2)),
    ]
    rows = sample(reqs, steps=200)
    assert set(rows[0]) == {1}
    assert set(rows[1]) == {1, 5}
    assert len(set(rows[2])) == VOCAB


def test_a_seed_gives_the_same_tokens_whoever_shares_the_batch() -> None:
    params = SamplingParams(temperature=1.5, seed=7)
    (alone,) = sample([make_req(params)], steps=20)
    mates = [make_req(SamplingParams(temperature=1.0)), make_req(SamplingParams())]
    among = sample([mates[0], make_req(params), mates[1]], steps=20)[1]
    assert alone == among
    assert sample([make_req(replace(params, seed=8))], steps=20) != [alone]
    assert len(set(alone)) > 1


def test_two_requests_with_one_seed_each_have_their_own_stream() -> None:
    params = SamplingParams(temperature=1.5, seed=7)
    a, b = sample([make_req(params), make_req(params)], steps=20)
    assert a == b


def test_without_a_seed_requests_differ() -> None:
    params = SamplingParams(temperature=2.0)
    a, b = sample([make_req(params), make_req(params)], steps=30)
    assert a != b


def test_a_chunk_draws_nothing_from_its_stream() -> None:
    """Its token is thrown away, so cutting a prompt must not change what is said."""
    params = SamplingParams(temperature=1.5, seed=7)
    sampler = Sampler(torch.device("cpu"), VOCAB)
    chunk, last = make_req(params, ChunkedReq), make_req(params)
    sampler.prepare(Batch(reqs=[chunk], phase="prefill"))
    batch = Batch(reqs=[last], phase="prefill")
    cut = sampler.sample(LOGITS[None], sampler.prepare(batch)).tolist()
    assert [cut] == sample([make_req(params)])


def test_neither_params_nor_logits_are_changed() -> None:
    params = SamplingParams(temperature=0.7, top_k=3, top_p=0.9, seed=3)
    logits = LOGITS[None].clone()
    sample([make_req(params)], logits, steps=3)
    assert params == SamplingParams(temperature=0.7, top_k=3, top_p=0.9, seed=3)
    assert torch.equal(logits, LOGITS[None])


def test_top_k_beyond_the_vocabulary_keeps_all() -> None:
    got = frequencies(SamplingParams(temperature=1.0, top_k=1000))
    assert (got - LOGITS.softmax(0)).abs().max() < 0.04
