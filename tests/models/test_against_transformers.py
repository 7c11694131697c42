"""SmolLM2's greedy tokens equal transformers', whatever the cache, page size, budget and batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch

from minisgl_lite import LLM, SamplingParams
from minisgl_lite.models import ModelSource, Tokenizer
from tests.models.reference import (
    Answer,
    answer_of,
    assert_pages_are_free_or_cached,
    compare,
    run,
    slow_answer_of,
)
from tests.models.standin import build, logits_of

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.slow,
    # The argument's new name is unknown to older versions.
    pytest.mark.filterwarnings("ignore:.*past_key_values:FutureWarning"),
]

STEPS = 64
SHARED = "You are a patient teacher of computer science. Explain in plain words, step by step. "
LONG = "A page table maps logical positions to physical slots. Entry {} lies in page {}. "


def question(text: str) -> str:
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


TEXTS = {
    "long": "".join(LONG.format(i, i // 4) for i in range(32)),
    "japanese": "日本の首都は東京です。フランスの首都は",
    "accents": "Voici une recette simple : 250 g de farine, des œufs, ½ tasse de crème fraîche, et",
    "shared-1": question(SHARED + "What is a cache?"),
    "shared-2": question(SHARED + "What is a queue?"),
    "repeated": question(SHARED + "What is a cache?"),
    "code": "def fibonacci(n):\n    ",
    "chat": question("What is the capital of France?"),
    "one-word": "Once",
    "numbers": "1, 1, 2, 3, 5, 8, 13, 21,",
}


class Case(NamedTuple):
    """One engine. ``rows``: the largest batch; ``budget``: prompt tokens of a prefill step."""

    cache: str
    page_size: int
    budget: int = 8192
    rows: int = 8
    overlap: bool = False

    def __str__(self) -> str:
        loop = "-overlap" if self.overlap else ""
        return f"{self.cache}-P{self.page_size}-budget{self.budget}-batch{self.rows}{loop}"


CASES = [
    Case("naive", 1, budget=100),
    Case("naive", 4),
    Case("naive", 16, budget=33, overlap=True),
    Case("radix", 1),
    Case("radix", 4, budget=100, overlap=True),
    Case("radix", 16, budget=33),
    Case("radix", 4, rows=1),
]


@pytest.fixture(scope="module")
def prompts(tokenizer: Tokenizer) -> list[list[int]]:
    return [tokenizer.encode(text) for text in TEXTS.values()]


@pytest.fixture(scope="module")
def loaded() -> Iterator[LLM]:
    """An engine whose weights the others share."""
    with LLM("smollm2") as llm:
        yield llm


@pytest.fixture(scope="module")
def reference(hf_smollm2: Any, loaded: LLM, prompts: list[list[int]]) -> list[Answer]:
    """transformers' answers; what our engine says is the guess that saves time."""
    guesses = run(loaded, prompts, STEPS)
    return [answer_of(hf_smollm2, guess.prompt, guess.tokens) for guess in guesses]


def test_the_prompts_are_what_they_are_meant_to_be(prompts: list[list[int]]) -> None:
    lengths = dict(zip(TEXTS, map(len, prompts), strict=True))
    assert len(prompts) >= 8 and lengths["long"] > 600 and lengths["one-word"] == 1
    by_name = dict(zip(TEXTS, prompts, strict=True))
    assert by_name["repeated"] == by_name["shared-1"]
    assert by_name["shared-1"][:16] == by_name["shared-2"][:16]
    assert sum(ord(c) > 127 for c in TEXTS["japanese"]) > 10


@pytest.mark.parametrize("name", ["japanese", "chat"])
def test_the_reference_is_what_transformers_says_token_by_token(
    name: str, hf_smollm2: Any, reference: list[Answer]
) -> None:
    answer = reference[list(TEXTS).index(name)]
    assert slow_answer_of(hf_smollm2, answer.prompt, STEPS).tokens == answer.tokens


def test_a_wrong_guess_has_no_part_in_the_reference(
    hf_smollm2: Any, reference: list[Answer]
) -> None:
    right = reference[list(TEXTS).index("one-word")]
    wrong = [*right.tokens[:3], right.tokens[3] + 1, *right.tokens[4:6]]
    assert answer_of(hf_smollm2, right.prompt, wrong).tokens == right.tokens[:6]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_greedy_tokens_equal_transformers(
    case: Case, loaded: LLM, prompts: list[list[int]], reference: list[Answer]
) -> None:
    llm = loaded.fork(
        cache_type=case.cache,
        page_size=case.page_size,
        num_pages=2048 // case.page_size,
        max_extend_tokens=case.budget,
        max_running_req=case.rows,
        overlap=case.overlap,
    )
    with llm:
        asked = prompts if case.rows > 1 else prompts[:4]  # one after the other takes long
        answers = run(llm, asked, STEPS)
        assert_pages_are_free_or_cached(llm)
    for name, ours, theirs in zip(TEXTS, answers, reference, strict=False):
        compare(ours, theirs, f"{case}, prompt {name!r}")


def test_prefill_logits_of_every_position_are_within_a_thousandth(
    smollm2: ModelSource, hf_smollm2: Any, prompts: list[list[int]]
) -> None:
    model = build(smollm2)
    for name, prompt in zip(TEXTS, prompts, strict=True):
        with torch.inference_mode():
            mask = torch.ones(1, len(prompt), dtype=torch.long)
            theirs = hf_smollm2(torch.tensor([prompt]), attention_mask=mask).logits[0]
        difference = (logits_of(model, prompt) - theirs).abs().max()
        assert difference <= 1e-3, f"{name}: {difference:.2e}"


def test_an_answer_ends_where_transformers_says_end_of_sequence(
    loaded: LLM, tokenizer: Tokenizer, prompts: list[list[int]], reference: list[Answer]
) -> None:
    theirs = reference[list(TEXTS).index("chat")]
    tokens = theirs.tokens[: theirs.tokens.index(2)]
    with loaded.fork(num_pages=64) as llm:
        [result] = llm.generate([theirs.prompt], SamplingParams(max_tokens=STEPS))
    assert result["token_ids"] == tokens
    assert result["finish_reason"] == "stop"
    assert result["text"] == tokenizer.decode(tokens) == "The capital of France is Paris."
