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
from . import host, memory, workloads
from .baseline import transformers_model
from .llamacpp import llamacpp_decode, llamacpp_file
from .parts import measure_parts
from .quality import agreement, texts_of
from .timing import Measured, take_turns
from .turn import live_turns

THEIRS = "transformers fp32"
THEIRS_BF16 = "transformers bf16"
LLAMA_CPP = "llama.cpp"
EXACT, QUICK = "exact", "quick"
BASE = {
    "decode": THEIRS,
    "prefill": THEIRS,
    "stream": THEIRS,
    "context": "context 128",
    "host": "1,024 pages",
    "turn": "allowed",
    "load": "weights",
    "memory": "allowed",
    "quality": "exact",
    "parts": "fp32",
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
        if name == "turn":
            return [live_turns(model, rounds)]
        if name == "load":
            return [_load(model, rounds)]
        if name == "memory":
            return [memory.of_generate(model)]
        if name == "parts":
            return measure_parts(model, rounds)
        if name == "quality":
            return _quality(model)
        if name == "context":
            return [_long_contexts(model, rounds)]
        return _whole_runs(name, model, rounds, batches, contexts)
    finally:
        gc.collect()


def _whole_runs(
    name: str, model: str, rounds: int, batches: Sequence[int], contexts: Sequence[int]
) -> list[Measured]:
    # NOTE: requests of one prefill batch can't reuse each other's prefixes, so batches are small.
    sizes: dict[str, Any] = {"page_size": 16, "num_pages": 2100, "max_extend_tokens": 2048}
    sizes["cuda_graph_bs"] = [1, 2, 4, 8, 16, 32]
    ours = {
        EXACT: LLM(model, torch.float32, **sizes),
        QUICK: LLM(model, torch.bfloat16, **sizes),
    }
    theirs = {
        THEIRS: transformers_model(model, torch.float32),
        THEIRS_BF16: transformers_model(model, torch.bfloat16),
    }
    vocab = ours[EXACT].engine.sampler.vocab_size
    found = []
    if name == "stream":
        prompts, tokens = workloads.shared_prefixes(vocab)
        runs: dict[str, Callable[[], float]] = {
            key: workloads.our_stream(llm, prompts, tokens) for key, llm in ours.items()
        }
        for key, llm in ours.items():
            naive = llm.fork(cache_type="naive")
            runs[f"{key}, naive cache"] = workloads.our_stream(naive, prompts, tokens)
        for batch in (16, 64):
            key = THEIRS if batch == 16 else f"{THEIRS}, {batch} at a time"
            runs[key] = workloads.their_stream(theirs[THEIRS], prompts, tokens, batch)
        runs[THEIRS_BF16] = workloads.their_stream(theirs[THEIRS_BF16], prompts, tokens, 16)
        # A run takes half a minute; what a warm-up would change is lost in it.
        rounds = min(rounds, 2)
        return [take_turns("64 requests, shared prefixes", "tokens/s", runs, rounds, warm_up=False)]
    for context in contexts:
        for batch in batches if name == "decode" else [1]:
            length = context if name == "decode" else max(context, 512)
            prompts = workloads.prompts_of(batch, length, vocab)
            runs = {k: _ours(name, llm, prompts) for k, llm in ours.items()}
            runs |= {k: _theirs(name, one, prompts) for k, one in theirs.items()}
            if name == "decode" and (file := llamacpp_file(model)):
                runs[LLAMA_CPP] = llamacpp_decode(file, prompts, 24)
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


def _long_contexts(model: str, rounds: int) -> Measured:
    """Decode at batch 8: exact, the prompts cached by the first round, so that only it is long."""
    llm = LLM(model, page_size=16, num_pages=8 * 4200 // 16)
    vocab = llm.engine.sampler.vocab_size
    runs = {}
    for context in (128, 1024, 4096):
        prompts = workloads.prompts_of(8, context, vocab, seed=context)
        runs[f"context {context}"] = workloads.our_decode(llm, prompts, 24, keep=True)
    return take_turns("decode, batch 8, exact", "tokens/s", runs, rounds)


def _quality(model: str) -> list[Measured]:
    """At 8 rows, where the file's blocks are multiplied, and at 32, where bf16 is."""
    found = []
    exact = LLM(model, page_size=16, num_pages=800)
    with exact, LLM(model, torch.bfloat16, page_size=16, num_pages=800) as quick:
        for rows in (8, 32):
            seen = agreement(exact, quick, texts_of(exact, rows, 2080 // rows + 1))
            title = f"quick beside exact, {rows} rows, {seen.tokens:,} tokens"
            found.append(Measured(title, "top-1 agreement", {QUICK: [seen.top1]}))
            found.append(Measured(title, "nats of KL", {QUICK: [seen.kl]}))
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


__all__ = ["BASE", "EXACT", "QUICK", "THEIRS", "THEIRS_BF16", "measure"]
