"""Attention of one request over its pages, in a pool whose pages hold heads before places."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ...attention.torch_ref import TorchAttnBackend
from ...core import Batch, use_ctx
from ...kernel.paged import paged_attention as reference_attention
from ...llm import LLM, SamplingParams
from ...message import UserMsg
from ...trace import KVSanitizer, Recorder, Trace
from ...utils import div_ceil
from ..checks import expect
from ..checks.exercise import Exercise, add
from ..checks.learner import Learner, Wrong

TOLERANCE = 2e-4


def _check(learner: Learner, rng: random.Random) -> None:
    for page_size in (1, 4, rng.choice([2, 3])):
        p = page_size
        for new, total in ((1, 1), (1, p), (1, 2 * p + 1), (p + 1, p + 1), (2 * p, 2 * p)):
            _compare_one(learner, rng, page_size, new, total)
        for new, total in ((2, 2 * p + 2), (p + 1, 3 * p + 2)):  # behind a hit
            _compare_one(learner, rng, page_size, new, total)
    _compare_one(learner, rng, 4, 3, 9, scale=40.0)
    _in_an_engine(learner)


def _compare_one(
    learner: Learner,
    rng: random.Random,
    page_size: int,
    new: int,
    total: int,
    *,
    scale: float = 1.0,
) -> None:
    """``scale``: of q; large ones give scores whose exponentials are beyond float32."""
    kv_heads, group, dim = rng.choice([1, 2, 3]), rng.choice([1, 2, 4]), rng.choice([4, 6])
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    count = div_ceil(total, page_size)
    pages = rng.sample(range(1, count + 4), count)
    # What no token of the request stands on holds NaN: whoever reads it sees it.
    k, v = (torch.full((count + 4, kv_heads, page_size, dim), float("nan")) for _ in "kv")
    for position in range(total):
        page, place = pages[position // page_size], position % page_size
        for cache in (k, v):
            cache[page, :, place] = torch.randn(kv_heads, dim, generator=generator)
    q = scale * torch.randn(kv_heads * group, new, dim, generator=generator)
    called = (
        f"attend_pages with {kv_heads * group} query and {kv_heads} KV heads, P = {page_size},"
        f" pages {pages}, {new} new of {total} tokens:"
    )
    found = expect.tensor(
        learner(q, k, v, pages, total), called.rstrip(":"), torch.float32, tuple(q.shape)
    )
    slots = [(pages[t // page_size], t % page_size) for t in range(total)]
    _compare_output(found, _by_hand(q, k, v, slots), called, total - new)


def _by_hand(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slots: list[tuple[int, int]]
) -> torch.Tensor:
    """The right output, in float64: row i of the new tokens over all up to itself."""
    heads, new, dim = q.shape
    group, before = heads // k.shape[1], len(slots) - new
    out = torch.empty(q.shape, dtype=torch.float64)
    for head in range(heads):
        rows = [(page, head // group, place) for page, place in slots]
        keys, values = (torch.stack([cache[at] for at in rows]).double() for cache in (k, v))
        for i in range(new):
            visible = before + i + 1
            scores = keys[:visible] @ q[head, i].double() / dim**0.5
            out[head, i] = scores.softmax(0) @ values[:visible]
    return out


def _compare_output(found: torch.Tensor, right: torch.Tensor, called: str, before: int) -> None:
    far = ~((found.double() - right.double()).abs() <= TOLERANCE * (1 + right.double().abs()))
    if not bool(far.any()):
        return
    head, i, at = far.nonzero()[0].tolist()
    value = float(found[head, i, at])
    where = f"{called} query head {head}, new token {i} (position {before + i}), number {at}"
    if value != value:
        raise Wrong(
            f"{where} is nan: a slot was read that holds no token of the request, or an exponential"
            " was too large",
            "m09",
        )
    raise Wrong(f"{where} is {value:.4f}; it should be {float(right[head, i, at]):.4f}")


class _Yours(TorchAttnBackend):
    """Stores as every backend does, then has the learner's function read."""

    learner: Learner
    steps = 0

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        self.store(k, v, layer_id, batch)
        self.steps += layer_id == 0
        caches = self.kvcache.k_cache(layer_id), self.kvcache.v_cache(layer_id)
        heads_first = [cache.transpose(1, 2).contiguous() for cache in caches]
        metadata: Any = batch.attn_metadata
        right = reference_attention(
            q.contiguous(),
            *caches,
            metadata.page_table,
            metadata.cache_seqlens,
            metadata.cu_seqlens_q,
            scale=self.scale,
        )
        at, outputs = 0, []
        for i, req in enumerate(batch.padded_reqs):
            rows = slice(at, at := at + req.extend_len)
            pages = metadata.page_table[i, : div_ceil(req.device_len, self.page_size)].tolist()
            called = f"in the engine, step {self.steps}, layer {layer_id}, request {req.uid}:"
            mine = q[rows].transpose(0, 1).contiguous()  # (H_q, n, D)
            found = expect.tensor(
                self.learner(mine, *heads_first, pages, req.device_len),
                called.rstrip(":"),
                torch.float32,
                tuple(mine.shape),
            )
            _compare_output(found, right[rows].transpose(0, 1), called, req.cached_len)
            outputs.append(found.transpose(0, 1))
        return torch.cat(outputs)


PARAMS = SamplingParams(max_tokens=4, ignore_eos=True)
PROMPTS: list[Any] = [list(b"Hello "), list(b"The"), list(b"Hello Th")]
"""Two at once, then one with the beginning of the first."""


@contextmanager
def _small_model(learner: Learner, kind: type[_Yours] = _Yours) -> Iterator[LLM]:
    """A model that reads with the learner's function; what no slot was written with is NaN."""
    sizes: dict[str, Any] = {"page_size": 4, "num_pages": 12, "max_running_req": 4}
    with LLM("tiny", **sizes, device="cpu", attention_backend="torch") as llm:
        engine = llm.engine
        with use_ctx(engine.ctx):
            backend = kind(engine.loaded.source.config)
        backend.learner = learner
        engine.ctx.attn_backend = engine.attn_backend = backend
        engine.kv_cache._kv_buffer.fill_(float("nan"))
        yield llm


def _in_an_engine(learner: Learner) -> None:
    with _small_model(learner) as llm:
        llm.generate(PROMPTS[:2], PARAMS)
        llm.generate(PROMPTS[2:], PARAMS)


class _ToItsEnd(_Yours):
    """Lets a step that reads wrongly come to its end: the engine takes back one that fails."""

    wrong: Wrong | None = None

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        if self.wrong is None:
            try:
                return super().forward(q, k, v, layer_id, batch)
            except Wrong as wrong:
                self.wrong = wrong
        return TorchAttnBackend.forward(self, q, k, v, layer_id, batch)


def _scene(learner: Learner) -> tuple[Trace, str | None]:
    """The same requests, to be looked at: the run ends with the step that reads wrongly."""
    with _small_model(learner, _ToItsEnd) as llm, Recorder(llm) as recorder, KVSanitizer(llm):
        backend: Any = llm.engine.attn_backend
        queue: Any = llm.io
        coming = [PROMPTS[:2], PROMPTS[2:]]
        uids = itertools.count(1)
        while backend.wrong is None and (coming or llm.has_work):
            for prompt in [] if llm.has_work else coming.pop(0):
                queue.send(UserMsg(next(uids), torch.tensor(prompt, dtype=torch.int32), PARAMS))
            llm.normal_loop()
    return recorder.trace(), None if backend.wrong is None else str(backend.wrong)


add(
    Exercise(
        name="paged-attention",
        kind="build",
        answer="attend_pages",
        objective="compute attention over a request's pages, also behind a hit",
        difficulty=3,
        minutes=40,
        points=8,
        page="write-then-read",
        misconceptions=("m02", "m09"),
        counterparts=(
            "minisgl_lite.kernel.paged:paged_attention",
            "minisgl_lite.kernel.paged:_context",
            "minisgl_lite.kernel.paged:_attend",
            "minisgl_lite.attention.torch_ref:TorchAttnBackend.forward",
            "minisgl_lite.attention.torch_ref:TorchAttnBackend._decode",
            "minisgl_lite.attention.torch_ref:TorchAttnBackend._extend",
            "minisgl_lite.kernel.attend:decode_attention_cpu",
            "minisgl_lite.attention.cpu:CpuAttnBackend.forward",
        ),
        hints=(
            "Gather first: the pages in the order of the list, places put one after the other, cut"
            " to device_len. You then have K and V of shape (H_kv, device_len, D), and the rest is"
            " attention as ever. Cut before you compute: 0 times NaN is NaN.",
            "Each KV head serves H_q / H_kv query heads that follow one another:"
            " `repeat_interleave` on the dimension of heads. Scores are divided by the square root"
            " of D, and torch.softmax copes with large ones.",
            "The queries belong to the last n of the device_len tokens. So new token i sees"
            " device_len - n + i + 1 tokens: a mask of ones, `tril(device_len - n)`.",
        ),
        check=_check,
        scene=_scene,
    )
)
