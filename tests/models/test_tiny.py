"""The tiny model: seeded, varied, with clear margins, and sensitive to its whole history."""

from __future__ import annotations

import pytest
import torch

from minisgl_lite.models import open_model
from tests.models.standin import build, greedy, logits_of

CPU = torch.device("cpu")
PROMPTS = ("Hello", "The cache", "abc abc")


def test_equal_seeds_give_equal_weights_and_others_do_not() -> None:
    weights = [open_model(name).state_dict(torch.float32, CPU) for name in ("tiny", "tiny:0")]
    other = open_model("tiny:1").state_dict(torch.float32, CPU)
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not torch.equal(weights[0]["lm_head.weight"], other["lm_head.weight"])


def test_building_it_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    open_model("tiny").state_dict(torch.float32, CPU)
    assert torch.equal(torch.get_rng_state(), before)


def test_its_shape_is_the_documented_one() -> None:
    config = open_model("tiny").config
    assert (config.num_layers, config.hidden_size, config.head_dim) == (2, 32, 8)
    assert (config.num_qo_heads, config.num_kv_heads) == (4, 2)
    assert (config.vocab_size, config.rotary_config.max_position) == (258, 512)


def test_greedy_margins_are_normally_above_a_hundredth_and_output_varies() -> None:
    margins: list[float] = []

    def note_margin(logits: torch.Tensor) -> None:
        best, second = logits.topk(2).values.tolist()
        margins.append(best - second)

    for seed in range(4):
        source = open_model(f"tiny:{seed}")
        model, tokenizer = build(source), source.tokenizer()
        for prompt in PROMPTS:
            out = greedy(model, tokenizer.encode(prompt), 48, note_margin)
            assert len(set(out)) >= 16, (seed, prompt)
    close = sum(margin < 1e-2 for margin in margins)
    assert close <= len(margins) // 200, f"{close} of {len(margins)} margins below 1e-2"
    assert min(margins) > 1e-4


def test_output_can_be_read() -> None:
    source = open_model("tiny")
    out = greedy(build(source), source.tokenizer().encode("Hello"), 32)
    assert all(0x20 <= token < 0x7F for token in out)


@pytest.mark.parametrize("position", [0, 5, 20])
def test_each_token_of_the_history_shows_in_the_logits(position: int) -> None:
    source = open_model("tiny")
    model, ids = build(source), source.tokenizer().encode("twenty-one characters")
    changed = ids.copy()
    changed[position] ^= 1
    difference = logits_of(model, ids)[-1] - logits_of(model, changed)[-1]
    assert difference.abs().max() > 1e-2
