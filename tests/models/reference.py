"""transformers' greedy answers, and our engine's with the logits they were chosen by."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import torch

from minisgl_lite import LLM, Batch, SamplingParams
from minisgl_lite.hooks import Listener
from minisgl_lite.scheduler.prefill import ChunkedReq

TIE = 1e-4


@dataclass
class Answer:
    """Greedy tokens of one prompt, and the logits that chose each: (vocab,) fp32."""

    prompt: list[int]
    tokens: list[int] = field(default_factory=list)
    logits: list[torch.Tensor] = field(default_factory=list)

    def margin(self, step: int) -> float:
        best, second = self.logits[step].topk(2).values.tolist()
        return float(best - second)


@torch.inference_mode()
def answer_of(model: Any, prompt: list[int], guess: list[int]) -> Answer:
    """transformers' greedy answer of ``len(guess)`` tokens, found in one pass if we guess right.

    Where each token of the guess is the likeliest after those before it, it is the greedy answer;
    otherwise the answer is made token by token, and the guess has no part in it.
    """
    ids = prompt + guess[:-1]
    mask = torch.ones(1, len(ids), dtype=torch.long)
    logits = model(torch.tensor([ids]), attention_mask=mask).logits[0, len(prompt) - 1 :]
    if logits.argmax(-1).tolist() != guess:
        return slow_answer_of(model, prompt, len(guess))
    return Answer(prompt, guess, list(logits))


@torch.inference_mode()
def slow_answer_of(model: Any, prompt: list[int], steps: int) -> Answer:
    """The same token by token; end-of-sequence tokens are tokens like others."""
    answer, cache, new = Answer(prompt), None, prompt
    for _ in range(steps):
        mask = torch.ones(1, len(prompt) + len(answer.tokens), dtype=torch.long)
        out = model(torch.tensor([new]), attention_mask=mask, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        answer.logits.append(out.logits[0, -1].clone())
        new = [int(answer.logits[-1].argmax())]
        answer.tokens += new
    return answer


class LogitsTap(Listener):
    """Keeps the logits of every sampled token of an ``LLM``, by request uid."""

    def __init__(self, llm: LLM) -> None:
        self.by_uid: dict[int, list[torch.Tensor]] = {}
        self._sample = llm.engine.sampler.sample
        llm.engine.sampler.sample = self._spy  # type: ignore[method-assign]
        llm.hooks.attach(self)

    def on_launch(self, batch: Batch, batch_id: int) -> None:
        self._batch = batch

    def _spy(self, logits: torch.Tensor, args: Any) -> torch.Tensor:
        for req, row in zip(self._batch.reqs, logits, strict=True):
            if not isinstance(req, ChunkedReq):  # what a chunk samples is thrown away
                self.by_uid.setdefault(req.uid, []).append(row.clone())
        return self._sample(logits, args)


def run(llm: LLM, prompts: list[list[int]], steps: int) -> list[Answer]:
    """Our engine, all prompts at once; uids count up from the engine's counter."""
    tap, first = LogitsTap(llm), llm.counter
    params = SamplingParams(max_tokens=steps, ignore_eos=True)
    results = llm.generate(prompts, params)
    return [
        Answer(prompt, result["token_ids"], tap.by_uid[first + number])
        for number, (prompt, result) in enumerate(zip(prompts, results, strict=True))
    ]


def compare(ours: Answer, theirs: Answer, what: str) -> None:
    """Equal tokens, and logits within 1e-3 at every step.

    A token may differ only where the two best logits lie within 1e-4; it is reported, and what
    follows it can't be compared.
    """
    assert len(ours.tokens) == len(theirs.tokens), what
    for step, (mine, right) in enumerate(zip(ours.tokens, theirs.tokens, strict=True)):
        difference = (ours.logits[step] - theirs.logits[step]).abs().max()
        assert difference <= 1e-3, f"{what}: logits of token {step} differ by {difference:.2e}"
        if mine != right:
            margin = theirs.margin(step)
            message = f"{what}: token {step} is {mine}, not {right}; margin {margin:.2e}"
            assert margin < TIE, message
            warnings.warn(message, stacklevel=2)
            return


def assert_pages_are_free_or_cached(llm: LLM) -> None:
    """After a run nothing is held: every page is in the free list or, unlocked, in the tree."""
    manager = llm.cache_manager
    manager.check_integrity()
    size = manager.prefix_cache.size_info
    assert size.protected_size == 0
    free = len(manager.free_slots) * manager.page_size
    assert free + size.evictable_size == manager.num_pages * manager.page_size
