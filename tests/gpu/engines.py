"""Whole engines with random weights: graphs against eager steps, overlap against the plain loop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from minisgl_lite.core import Batch, SamplingParams
from minisgl_lite.engine import LoadedModel
from minisgl_lite.llm import LLM
from minisgl_lite.models import ModelConfig, ModelSource, Tokenizer, create_model
from tests.gpu.plan import Plan

TIE = 1e-4
"""In fp32 tokens may differ only where the two best logits are nearer than this."""


class RandomSource(ModelSource):
    """A model of some shape and no meaning."""

    eos_token_ids = ()

    def __init__(self, config: ModelConfig) -> None:
        self.name = config.model_type
        self.whole_config = config

    def state_dict(self, dtype: torch.dtype, device: torch.device) -> dict[str, torch.Tensor]:
        """Every matrix keeps the size of what it is given; norms are 1, biases small."""
        with torch.device("meta"):
            empty = create_model(self.config).state_dict()
        generator = torch.Generator(device).manual_seed(0)
        weights = {}
        for name, like in empty.items():
            random = torch.randn(like.shape, generator=generator, device=device)
            if "embed" not in name:
                random = random * like.shape[-1] ** -0.5
            weights[name] = (torch.ones_like(random) if "norm" in name else random).to(dtype)
        return weights

    def _make_tokenizer(self) -> Tokenizer:
        raise NotImplementedError("prompts and outputs are token ids")


def load_random(plan: Plan, config: ModelConfig, dtype: torch.dtype) -> LoadedModel:
    source = RandomSource(config)
    with torch.device("meta"):
        model = create_model(config)
    model.load_state_dict(source.state_dict(dtype, plan.device))
    return LoadedModel(source, model, dtype)


def make_llm(
    plan: Plan, loaded: LoadedModel, dtype: torch.dtype, *, graphs: bool, overlap: bool
) -> LLM:
    """Steps are padded alike with graphs and without, so that both compute the same."""
    longest = 256 if not plan.is_dry else 32
    llm = LLM(
        loaded.source.name,
        dtype,
        page_size=16,
        num_pages=plan.requests * longest // 16,
        max_running_req=plan.requests,
        max_seq_len_override=longest,
        attention_backend="triton",
        cuda_graph_bs=[size for size in (1, 2, 4, 8, 16, 32, 64) if size <= plan.requests],
        overlap=overlap,
        device=str(plan.device),
        loaded=loaded,
    )
    if not graphs:
        llm.engine.graph_runner.destroy_cuda_graphs()
    return llm


def make_prompts(plan: Plan, config: ModelConfig) -> list[list[int]]:
    """Ragged, half of them over one shared prefix, so that there are partial hits."""
    generator = torch.Generator().manual_seed(1)
    most = 120 if not plan.is_dry else 12

    def ids(count: int) -> list[int]:
        return torch.randint(config.vocab_size, (count,), generator=generator).tolist()

    shared = ids(most // 2)
    lengths = torch.randint(1, most // 2, (plan.requests,), generator=generator).tolist()
    return [(shared if i % 2 else []) + ids(length) for i, length in enumerate(lengths)]


@dataclass
class Margins:
    """Keeps the distance between the two best logits of every token, next to the sampler."""

    sampler: Any
    margins: list[tuple[list[int], torch.Tensor]] = field(default_factory=list)

    @property
    def vocab_size(self) -> int:
        return int(self.sampler.vocab_size)

    def prepare(self, batch: Batch) -> Any:
        self._uids = [req.uid if req.can_decode else -1 for req in batch.reqs]
        return self.sampler.prepare(batch)

    def sample(self, logits: torch.Tensor, args: Any) -> torch.Tensor:
        best = logits.topk(2, dim=-1).values
        self.margins.append((self._uids, best[:, 0] - best[:, 1]))
        return self.sampler.sample(logits, args)  # type: ignore[no-any-return]

    def by_uid(self) -> dict[int, list[float]]:
        found: dict[int, list[float]] = {}
        for uids, values in self.margins:
            for uid, value in zip(uids, values.tolist(), strict=True):
                found.setdefault(uid, []).append(value)
        return found


class Run(NamedTuple):
    """Tokens and margins by request, and what the run took."""

    tokens: list[list[int]]
    margins: dict[int, list[float]]
    seconds: float
    host_seconds_per_step: float


def run(llm: LLM, prompts: list[list[int]], new_tokens: int, *, margins: bool = False) -> Run:
    """Answer all prompts once; time stands still for nobody, so warm up first."""
    watch = Margins(llm.engine.sampler)
    if margins:
        llm.engine.sampler = watch
    tokens: list[list[int]] = [[] for _ in prompts]
    params = SamplingParams(max_tokens=new_tokens, ignore_eos=True)
    first = llm.counter
    with decode_clock(llm) as clock:
        start = time.perf_counter()
        for index, token, reason in llm.stream(prompts, params):
            if reason is not None and reason.startswith("error"):
                raise RuntimeError(f"request {index}: {reason}")
            tokens[index].append(token)
        took = time.perf_counter() - start
    llm.engine.sampler = watch.sampler
    by_uid = {uid - first: values for uid, values in watch.by_uid().items()}
    return Run(tokens, by_uid, took, clock.host_seconds / max(clock.steps, 1))


@dataclass
class Clock:
    """Host time of turns that launched a decode batch, without waiting for the device."""

    steps: int = 0
    host_seconds: float = 0.0
    waited: float = 0.0
    launched_decode: bool = False


class TimedEvent:
    """Counts the time that the host waits for a step."""

    def __init__(self, event: Any, clock: Clock) -> None:
        self.event, self.clock = event, clock

    def synchronize(self) -> None:
        start = time.perf_counter()
        self.event.synchronize()
        self.clock.waited += time.perf_counter() - start


@contextmanager
def decode_clock(llm: LLM) -> Iterator[Clock]:
    """Put a clock around every turn of ``llm``."""
    clock = Clock()
    forward_batch, run_turn = llm.engine.forward_batch, llm.run_turn

    def timed_forward(batch: Batch, args: Any) -> Any:
        clock.launched_decode = batch.is_decode
        output = forward_batch(batch, args)
        return output._replace(copy_done_event=TimedEvent(output.copy_done_event, clock))

    def timed_turn() -> None:
        clock.launched_decode, clock.waited = False, 0.0
        start = time.perf_counter()
        run_turn()
        if clock.launched_decode:
            clock.steps += 1
            clock.host_seconds += time.perf_counter() - start - clock.waited

    llm.engine.forward_batch, llm.run_turn = timed_forward, timed_turn  # type: ignore[method-assign]
    try:
        yield clock
    finally:
        del llm.engine.forward_batch, llm.run_turn


def first_differences(one: Run, other: Run) -> list[tuple[int, int, float]]:
    """(request, token, margin there) of the first token that differs, for each that does."""
    found = []
    for uid, (a, b) in enumerate(zip(one.tokens, other.tokens, strict=True)):
        at = next((i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), None)
        if at is not None:
            found.append((uid, at, one.margins[uid][at]))
    return found
