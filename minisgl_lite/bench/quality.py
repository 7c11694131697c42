"""How far a mode's next-token distributions are from those of the exact mode.

Both modes are led through the same texts, token by token, whatever they would have chosen: so each
pair of distributions stands after the same words, and a single different choice does not count for
all that follow it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..core import Batch, SamplingParams
from ..engine.sample import BatchSamplingArgs
from ..llm import LLM

Texts = list[list[int]]
"""Token ids, all of one length."""


@dataclass(frozen=True)
class Agreement:
    """Over ``tokens`` places: how often both like the same token best, and KL(exact ‖ other)."""

    tokens: int
    top1: float
    kl: float


class _Leading:
    """A sampler that keeps the logits and hands out the text's next tokens."""

    def __init__(self, texts: Texts, vocab_size: int) -> None:
        self.texts, self.vocab_size = texts, vocab_size
        self.logits = torch.empty(0)
        self._next: list[int] = []

    def prepare(self, batch: Batch) -> BatchSamplingArgs:
        first = min(req.uid for req in batch.reqs)
        self._next = [self.texts[req.uid - first][req.device_len] for req in batch.reqs]
        return BatchSamplingArgs()

    def sample(self, logits: torch.Tensor, args: BatchSamplingArgs) -> torch.Tensor:
        self.logits = logits
        return torch.tensor(self._next)


def _steps(llm: LLM, texts: Texts) -> Iterator[torch.Tensor]:
    """Logits (texts, vocab) of each decode step; the first token alone is a prompt."""
    usual, leading = llm.engine.sampler, _Leading(texts, llm.engine.sampler.vocab_size)
    llm.engine.sampler = leading
    params = SamplingParams(max_tokens=len(texts[0]) - 1, ignore_eos=True)
    stream: Any = llm.stream([text[:1] for text in texts], params)
    try:
        for _ in range(len(texts[0]) - 1):
            for _ in texts:
                next(stream)
            yield leading.logits
    finally:
        stream.close()
        llm.engine.sampler = usual


def agreement(exact: LLM, other: LLM, texts: Texts) -> Agreement:
    """Lead both through ``texts`` in batches of ``len(texts)`` rows."""
    same = places = 0
    kl = 0.0
    for ours, theirs in zip(_steps(exact, texts), _steps(other, texts), strict=True):
        p, q = ours.float().log_softmax(-1), theirs.float().log_softmax(-1)
        kl += float((p.exp() * (p - q)).sum())
        same += int((p.argmax(-1) == q.argmax(-1)).sum())
        places += len(p)
    return Agreement(places, same / places, kl / places)


def texts_of(llm: LLM, count: int, length: int) -> Texts:
    """Texts that the model itself writes at temperature 1, seeded: words as it expects them."""
    begin = llm.tokenizer.encode("The")[0]
    params = [
        SamplingParams(temperature=1.0, ignore_eos=True, max_tokens=length - 1, seed=seed)
        for seed in range(count)
    ]
    return [[begin, *r["token_ids"]] for r in llm.generate([[begin]] * count, params)]
