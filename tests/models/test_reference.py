"""The judge of the comparison with transformers: what it lets through and what it doesn't."""

from __future__ import annotations

import warnings

import pytest
import torch

from minisgl_lite import LLM, SamplingParams
from tests.models.reference import Answer, assert_pages_are_free_or_cached, compare, run


def answer(*tokens: int, second: float = 0.5, shift: float = 0.0) -> Answer:
    """Each step's best logit is 1, the next one's ``second``; ``shift`` moves another."""
    logits = []
    for token in tokens:
        row = torch.zeros(8)
        row[token], row[(token + 1) % 8], row[(token + 2) % 8] = 1.0, second, shift
        logits.append(row)
    return Answer([1], list(tokens), logits)


def test_equal_answers_pass_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(answer(3, 4), answer(3, 4, shift=9e-4), "case")


def test_another_token_fails() -> None:
    ours = answer(3, 5)
    ours.logits = answer(3, 4).logits
    with pytest.raises(AssertionError, match=r"case: token 1 is 5, not 4; margin 5\.00e-01"):
        compare(ours, answer(3, 4), "case")


def test_another_token_at_a_tie_is_reported() -> None:
    theirs = answer(3, 4, 6, second=1 - 5e-5)
    ours = Answer([1], [3, 5, 7], theirs.logits)
    with pytest.warns(UserWarning, match="token 1 is 5, not 4"):
        compare(ours, theirs, "case")


def test_distant_logits_fail_at_any_step() -> None:
    theirs = answer(3, 4)
    ours = Answer([1], [3, 4], [theirs.logits[0], theirs.logits[1] + 2e-3])
    with pytest.raises(AssertionError, match=r"logits of token 1 differ by 2\.00e-03"):
        compare(ours, theirs, "case")


def test_a_missing_token_fails() -> None:
    with pytest.raises(AssertionError, match="case"):
        compare(answer(3), answer(3, 4), "case")


def test_logits_of_our_engine_belong_to_its_tokens() -> None:
    with LLM("tiny", page_size=4, max_extend_tokens=5) as llm:
        answers = run(llm, [[72, 101, 108, 108, 111, 33, 34], [97]], 6)
    for each in answers:
        assert [int(row.argmax()) for row in each.logits] == each.tokens
        assert len(each.tokens) == 6


def test_a_held_page_is_noticed() -> None:
    with LLM("tiny", page_size=4) as llm:
        stream = llm.stream([[97, 98, 99]], SamplingParams(max_tokens=4))
        next(stream)
        with pytest.raises((AssertionError, RuntimeError)):
            assert_pages_are_free_or_cached(llm)
        stream.close()
        assert_pages_are_free_or_cached(llm)
