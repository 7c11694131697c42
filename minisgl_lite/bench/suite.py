"""The workloads by name, with everybody who takes part."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from ..llm import LLM
from ..models import open_model
from ..scheduler import Scheduler
from . import host, workloads
from .baseline import transformers_model
from .timing import Measured, take_turns

THEIRS = "transformers fp32"
THEIRS_BF16 = "transformers bf16"
EXACT, QUICK = "exact (fp32)", "quick (bf16)"
BASE = {
    "decode": THEIRS,
    "prefill": THEIRS,
    "stream": THEIRS,
    "host": "1,024 pages",
    "load": "weights",
}


def measure(
    name: str,
    model: str,
    rounds: int,
    batches: Sequence[int],
    contexts: Sequence[int],
    minisgl: Path | None,
) -> list[Measured]:
    """Measure one workload; models are loaded for it and given back after it."""
    try:
        if name == "host":
            return _host(rounds, minisgl)
        if name == "load":
            return [_load(model, rounds)]
        return _whole_runs(name, model, rounds, batches, contexts)
    finally:
        gc.collect()


def _whole_runs(
    name: str, model: str, rounds: int, batches: Sequence[int], contexts: Sequence[int]
) -> list[Measured]:
    ours = {
        EXACT: LLM(model, torch.float32, page_size=16, num_pages=2100),
        QUICK: LLM(model, torch.bfloat16, page_size=16, num_pages=2100),
    }
    theirs = {
        THEIRS: transformers_model(model, torch.float32),
        THEIRS_BF16: transformers_model(model, torch.bfloat16),
    }
    vocab = ours[EXACT].engine.sampler.vocab_size or 0
    found = []
    if name == "stream":
        prompts, tokens = workloads.shared_prefixes(vocab)
        runs: dict[str, Callable[[], float]] = {
            key: workloads.our_stream(llm, prompts, tokens) for key, llm in ours.items()
        }
        naive = ours[EXACT].fork(cache_type="naive")
        runs["exact, naive cache"] = workloads.our_stream(naive, prompts, tokens)
        for batch in (16, 64):
            key = THEIRS if batch == 16 else f"{THEIRS}, {batch} at a time"
            runs[key] = workloads.their_stream(theirs[THEIRS], prompts, tokens, batch)
        return [take_turns("64 requests, shared prefixes", "tokens/s", runs, rounds)]
    for context in contexts:
        for batch in batches if name == "decode" else [1]:
            length = context if name == "decode" else max(context, 512)
            prompts = workloads.prompts_of(batch, length, vocab)
            runs = {k: _ours(name, llm, prompts) for k, llm in ours.items()}
            runs |= {k: _theirs(name, one, prompts) for k, one in theirs.items()}
            title = f"decode, batch {batch}, context {context}"
            title = title if name == "decode" else f"prefill {length}"
            found.append(take_turns(title, "tokens/s", runs, rounds))
    return found


def _ours(name: str, llm: LLM, prompts: workloads.Prompts) -> Callable[[], float]:
    if name == "decode":
        return workloads.our_decode(llm, prompts, 24)
    return workloads.our_prefill(llm, prompts)


def _theirs(name: str, model: Any, prompts: workloads.Prompts) -> Callable[[], float]:
    if name == "decode":
        return workloads.their_decode(model, prompts, 24)
    return workloads.their_prefill(model, prompts)


def _host(rounds: int, minisgl: Path | None) -> list[Measured]:
    pools = (1_024, 32_768, 1_048_576)
    flat = {f"{n:,} pages": host.decode_step(Scheduler, 16, n) for n in pools}
    found = [take_turns("host work per decode step, 16 requests", "s", flat, rounds)]
    sizes = (1, 16, 64, 256)
    grows = {f"{n} requests": host.decode_step(Scheduler, n, 32_768) for n in sizes}
    found.append(take_turns("host work per decode step, 32,768 pages", "s", grows, rounds))
    if minisgl is not None:
        from ..teaching.clone import load_minisgl
        from ..teaching.reference import reference_scheduler

        published: type[Any] = reference_scheduler(load_minisgl(minisgl))
        both = {
            "minisgl_lite": host.decode_step(Scheduler, 64, 32_768),
            "mini-sglang": host.published_step(published, 64, 32_768),
        }
        found.append(take_turns("host work per decode step, 64 requests", "s", both, rounds))
    return found


def _load(model: str, rounds: int) -> Measured:
    def weights() -> float:
        start = time.perf_counter()
        open_model(model).state_dict(torch.float32, torch.device("cpu"))
        return time.perf_counter() - start

    def whole() -> float:
        start = time.perf_counter()
        with LLM(model, num_pages=64, page_size=16) as llm:
            assert llm.tokenizer is not None
        return time.perf_counter() - start

    return take_turns("load", "s", {"weights": weights, "whole LLM": whole}, rounds)
