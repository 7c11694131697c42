"""The tiny model through a whole `LLM`, turned by hand, with its logits kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from minisgl_lite import LLM, SamplingParams
from minisgl_lite.message import UserMsg

PROMPTS = [[5, 6, 7, 8, 9, 10, 11], [5, 6, 7, 8, 1, 2], [70, 71, 72]]


def make_llm(**kwargs: Any) -> LLM:
    return LLM("tiny", **{"page_size": 4, "num_pages": 24, "max_running_req": 8, **kwargs})


def keep_logits(llm: LLM) -> list[torch.Tensor]:
    """Logits of every step from now on, (bs, vocab) each."""
    kept: list[torch.Tensor] = []
    sample = llm.engine.sampler.sample

    def sampling(logits: torch.Tensor, args: Any) -> torch.Tensor:
        kept.append(logits.clone())
        return sample(logits, args)

    llm.engine.sampler.sample = sampling  # type: ignore[method-assign]
    return kept


def run(
    llm: LLM,
    prompts: Sequence[Sequence[int]] = PROMPTS,
    max_tokens: int = 6,
    between: Callable[[int], None] | None = None,
) -> dict[int, list[int]]:
    """Greedy tokens by uid; `between(turn)` is called after each turn."""
    llm.io.replies.clear()  # type: ignore[attr-defined]
    for uid, prompt in enumerate(prompts):
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        ids = torch.tensor(list(prompt), dtype=torch.int32)
        llm.io.send(UserMsg(uid, ids, params))  # type: ignore[attr-defined]
    said: dict[int, list[int]] = {uid: [] for uid in range(len(prompts))}
    turn, data = 0, None
    while llm.has_work or data is not None or llm.io.waiting:  # type: ignore[attr-defined]
        if llm.overlap:
            data = llm.overlap_loop(data)
        else:
            llm.normal_loop()
        turn += 1
        if between is not None:
            between(turn)
    for reply in llm.io.replies:  # type: ignore[attr-defined]
        said[reply.uid].append(reply.next_token)
    return said


def assert_close(got: list[torch.Tensor], want: list[torch.Tensor], atol: float = 1e-5) -> None:
    assert len(got) == len(want)
    for step, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.shape == b.shape
        assert (a - b).abs().max() <= atol, f"step {step}: {(a - b).abs().max()}"
