"""config.json in the spellings of transformers 4 and 5."""

from __future__ import annotations

from typing import Any

import pytest

from minisgl_lite.models import ModelConfig
from tests.models.checkpoints import BASE

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def config(**changes: Any) -> ModelConfig:
    return ModelConfig.from_hf(BASE | changes)


def test_entries_land_in_the_fields() -> None:
    c = config()
    assert (c.num_layers, c.num_qo_heads, c.num_kv_heads, c.head_dim) == (2, 8, 2, 8)
    assert (c.hidden_size, c.intermediate_size, c.vocab_size) == (64, 96, 99)
    assert (c.rms_norm_eps, c.hidden_act, c.tie_word_embeddings) == (1e-5, "silu", False)
    assert (c.model_type, c.architectures) == ("llama", ("LlamaForCausalLM",))
    assert c.rotary_config.max_position == 256
    assert c.rotary_config.scaling is None


def test_defaults_are_those_of_transformers() -> None:
    hf = {k: v for k, v in BASE.items() if k not in ("num_key_value_heads", "rope_theta")}
    c = ModelConfig.from_hf(hf)
    assert c.num_kv_heads == 8
    assert c.rotary_config.base == 10000.0


def test_an_explicit_head_dim_wins() -> None:
    c = config(head_dim=32)
    assert c.head_dim == c.rotary_config.rotary_dim == 32


def test_both_spellings_of_rope_settings_are_read() -> None:
    old = config(rope_theta=5e5, rope_scaling=LLAMA3)
    new = config(rope_theta=None, rope_parameters={"rope_theta": 5e5, **LLAMA3})
    assert old.rotary_config == new.rotary_config
    assert old.rotary_config.base == 5e5
    assert old.rotary_config.scaling == LLAMA3


def test_the_oldest_spelling_says_type() -> None:
    scaling = config(rope_scaling={"type": "linear", "factor": 2.0}).rotary_config.scaling
    assert scaling == {"rope_type": "linear", "factor": 2.0}


def test_yarn_was_trained_on_the_whole_context_unless_it_says_otherwise() -> None:
    scaling = config(rope_scaling={"rope_type": "yarn", "factor": 2.0}).rotary_config.scaling
    assert scaling is not None and scaling["original_max_position_embeddings"] == 256


def test_a_default_rope_has_no_scaling() -> None:
    c = config(rope_theta=None, rope_parameters={"rope_type": "default", "rope_theta": 3e4})
    assert c.rotary_config.scaling is None
    assert c.rotary_config.base == 3e4


def test_a_sliding_window_ends_the_context() -> None:
    assert config(sliding_window=100).rotary_config.max_position == 100
    assert config(sliding_window=1000).rotary_config.max_position == 256
    off = config(sliding_window=100, use_sliding_window=False)
    assert off.rotary_config.max_position == 256


@pytest.mark.parametrize(
    ("heads", "kv_heads", "size", "filled"),
    [
        (8, 2, 1, (8, 2)),
        (8, 2, 2, (8, 2)),
        (8, 2, 4, (8, 2)),  # each KV head on two ranks
        (9, 3, 2, (12, 4)),
        (9, 3, 3, (9, 3)),
        (9, 3, 6, (18, 6)),  # 9 query heads on 6 ranks
        (8, 2, 3, (12, 3)),
    ],
)
def test_heads_are_filled_up_in_whole_groups(
    heads: int, kv_heads: int, size: int, filled: tuple[int, int]
) -> None:
    c = config(num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=8)
    full = c.filled_up(size)
    assert (full.num_qo_heads, full.num_kv_heads) == filled
    assert full.intermediate_size % size == 0
    assert (full.head_dim, full.hidden_size, full.vocab_size) == (8, 64, 99)


@pytest.mark.parametrize("key", ["hidden_size", "architectures", "vocab_size", "rms_norm_eps"])
def test_a_missing_entry_is_named(key: str) -> None:
    with pytest.raises(ValueError, match=f"no '{key}'"):
        config(**{key: None})


@pytest.mark.parametrize("value", [0, -1, 2.5, "12"])
def test_a_size_that_is_no_positive_integer_is_named(value: Any) -> None:
    with pytest.raises(ValueError, match=f"layers'? is {value!r}"):
        config(num_hidden_layers=value)


def test_uneven_head_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="8 query heads can't share 3 KV heads"):
        config(num_key_value_heads=3)
