"""What quick costs in agreement, on a slice of what ``bench quality`` measures; and batch-mates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from minisgl_lite import LLM, SamplingParams
from minisgl_lite.bench.quality import agreement, texts_of


@pytest.fixture(scope="module")
def exact() -> Iterator[LLM]:
    with LLM("smollm2", page_size=16, num_pages=200) as llm:
        yield llm


def test_a_mode_agrees_with_itself(exact: LLM) -> None:
    found = agreement(exact, exact.fork(page_size=4), texts_of(exact, 2, 6))
    assert (found.tokens, found.top1) == (10, 1.0)
    assert found.kl < 1e-6


@pytest.mark.parametrize(("rows", "length"), [(4, 26), (10, 11)])
def test_quick_stays_close_to_exact(exact: LLM, rows: int, length: int) -> None:
    """Over and under the number of rows at which its product changes."""
    with LLM("smollm2", torch.bfloat16, page_size=16, num_pages=200) as quick:
        found = agreement(exact, quick, texts_of(exact, rows, length))
    assert found.tokens == rows * (length - 1)
    assert found.top1 >= 0.95  # of 100; over 2,000 it is 0.98
    assert found.kl <= 0.002


def test_exact_tokens_do_not_depend_on_batch_mates(exact: LLM) -> None:
    prompts = [f"{n}. The capital of {name} is" for n, name in enumerate(("France", "Peru"))]
    prompts += [f"Once upon a time there were {n}" for n in range(38)]  # beyond MOST_ROWS
    params = SamplingParams(max_tokens=8, ignore_eos=True)
    together = exact.generate(prompts, params)
    for i in (0, 1, 2, 39):
        exact.cache_manager.reset()
        assert exact.generate([prompts[i]], params)[0]["token_ids"] == together[i]["token_ids"]
