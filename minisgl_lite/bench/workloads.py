"""What is measured of whole runs: decode, prefill, and a stream of requests that share prefixes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import torch

from ..core import SamplingParams
from ..llm import LLM

Prompts = list[list[int]]


def prompts_of(count: int, length: int, vocab: int, seed: int = 0) -> Prompts:
    """Random token ids, no two beginnings alike."""
    rng = random.Random(seed)
    return [[rng.randrange(100, vocab) for _ in range(length)] for _ in range(count)]


def our_decode(
    llm: LLM, prompts: Prompts, tokens: int, *, keep: bool = False
) -> Callable[[], float]:
    """Tokens per second of decode steps alone; the prompts are computed before the clock runs.

    ``keep``: leave them in the prefix cache for the next run.
    """

    def run() -> float:
        if not keep:
            llm.cache_manager.reset()
        stream = llm.stream(prompts, SamplingParams(max_tokens=tokens + 1, ignore_eos=True))
        seen = 0
        while seen < len(prompts):  # the first tokens come out of the prefill
            next(stream)
            seen += 1
        start = time.perf_counter()
        count = sum(1 for _ in stream)
        return count / (time.perf_counter() - start)

    return run


def our_prefill(llm: LLM, prompts: Prompts) -> Callable[[], float]:
    """Prompt tokens per second, for one token of output."""
    total = sum(len(prompt) for prompt in prompts)

    def run() -> float:
        llm.cache_manager.reset()
        start = time.perf_counter()
        llm.generate(prompts, SamplingParams(max_tokens=1, ignore_eos=True))
        return total / (time.perf_counter() - start)

    return run


@torch.inference_mode()
def _prefilled(model: Any, prompts: Prompts) -> tuple[torch.Tensor, Any, torch.Tensor]:
    ids = torch.tensor(prompts)
    mask = torch.ones_like(ids)
    # The prompt's last logits alone: those of all positions would cost time that nobody asked for.
    out = model(ids, attention_mask=mask, use_cache=True, logits_to_keep=1)
    return out.logits[:, -1].argmax(-1, keepdim=True), out.past_key_values, mask


def their_decode(model: Any, prompts: Prompts, tokens: int) -> Callable[[], float]:
    """The same with transformers: one batch of equal lengths, greedy, its own cache."""

    @torch.inference_mode()
    def run() -> float:
        new, cache, mask = _prefilled(model, prompts)
        start = time.perf_counter()
        for _ in range(tokens):
            mask = torch.cat([mask, torch.ones_like(new)], dim=1)
            out = model(new, attention_mask=mask, past_key_values=cache, use_cache=True)
            new = out.logits[:, -1].argmax(-1, keepdim=True)
        return len(prompts) * tokens / (time.perf_counter() - start)

    return run


def their_prefill(model: Any, prompts: Prompts) -> Callable[[], float]:
    total = sum(len(prompt) for prompt in prompts)

    def run() -> float:
        start = time.perf_counter()
        _prefilled(model, prompts)
        return total / (time.perf_counter() - start)

    return run


def shared_prefixes(vocab: int) -> tuple[Prompts, int]:
    """64 prompts: 8 prefixes of 256 tokens, each with 8 tails of 16 to 64; 32 tokens of output."""
    rng = random.Random(8)
    prefixes = prompts_of(8, 256, vocab, seed=1)
    prompts = [
        prefix + [rng.randrange(100, vocab) for _ in range(rng.randrange(16, 65))]
        for _ in range(8)
        for prefix in prefixes
    ]
    return prompts, 32


def our_stream(llm: LLM, prompts: Prompts, tokens: int) -> Callable[[], float]:
    """Output tokens per second of the whole stream, all prompts given at once."""

    def run() -> float:
        llm.cache_manager.reset()
        start = time.perf_counter()
        llm.generate(prompts, SamplingParams(max_tokens=tokens, ignore_eos=True))
        return len(prompts) * tokens / (time.perf_counter() - start)

    return run


def their_stream(model: Any, prompts: Prompts, tokens: int, batch: int) -> Callable[[], float]:
    """transformers' ``generate`` over batches of prompts sorted by length, padded to the left."""

    @torch.inference_mode()
    def run() -> float:
        start = time.perf_counter()
        ordered = sorted(prompts, key=len)
        for at in range(0, len(ordered), batch):
            part = ordered[at : at + batch]
            longest = max(map(len, part))
            ids = torch.tensor([[0] * (longest - len(p)) + p for p in part])
            mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in part])
            model.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                do_sample=False,
                pad_token_id=0,
                use_cache=True,
            )
        return len(prompts) * tokens / (time.perf_counter() - start)

    return run


__all__ = [
    "our_decode",
    "our_prefill",
    "our_stream",
    "prompts_of",
    "shared_prefixes",
    "their_decode",
    "their_prefill",
    "their_stream",
]
