"""Rotary embedding: the angles, their scalings, and who keeps the table."""

from __future__ import annotations

import gc
import math
from typing import Any

import pytest
import torch

from minisgl_lite.kernel import rows
from minisgl_lite.layers import RotaryEmbedding, get_rope
from minisgl_lite.layers.rotary import _LIVE, inverse_frequencies

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 256,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}


def rotate(rope: RotaryEmbedding, x: torch.Tensor, position: int) -> torch.Tensor:
    """One head vector (D,) at one position."""
    positions = torch.tensor([position], dtype=torch.int32)
    return rope.forward(positions, x[None, None], x[None, None])[0][0, 0]


def test_a_pair_turns_by_position_times_frequency() -> None:
    rope = RotaryEmbedding(4, 4, 32, base=100.0)
    x = torch.tensor([1.0, 0.0, 0.0, 2.0])  # pairs (x0, x2) and (x1, x3)
    a, b = 5.0, 5.0 / 10.0
    expected = [math.cos(a), -2 * math.sin(b), math.sin(a), 2 * math.cos(b)]
    torch.testing.assert_close(rotate(rope, x, 5), torch.tensor(expected))


def test_position_zero_changes_nothing() -> None:
    x = torch.randn(8)
    assert torch.equal(rotate(RotaryEmbedding(8, 8, 4, 1e4), x, 0), x)


def test_dot_products_depend_on_the_distance_only() -> None:
    rope = RotaryEmbedding(16, 16, 64, 1e4)
    q, k = torch.randn(16), torch.randn(16)
    near = rotate(rope, q, 9) @ rotate(rope, k, 2)
    far = rotate(rope, q, 47) @ rotate(rope, k, 40)
    torch.testing.assert_close(near, far, rtol=1e-4, atol=1e-4)


def test_inputs_are_not_changed_and_may_be_strided() -> None:
    rope = RotaryEmbedding(8, 8, 16, 1e4)
    qkv = torch.randn(3, 5 * 8)
    before, positions = qkv.clone(), torch.arange(3, dtype=torch.int32)
    q, k = qkv[:, :16].unflatten(1, (2, 8)), qkv[:, 16:24].unflatten(1, (1, 8))
    got = rope.forward(positions, q, k)
    want = rope.forward(positions, q.contiguous(), k.contiguous())
    assert torch.equal(qkv, before)
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])


def test_equal_parameters_share_one_table_and_others_do_not() -> None:
    first = get_rope(8, 8, 64, 123.0, LLAMA3)
    assert get_rope(8, 8, 64, 123.0, dict(LLAMA3)) is first
    assert get_rope(8, 8, 64, 124.0, LLAMA3) is not first
    assert get_rope(8, 8, 64, 123.0) is not first


def test_the_table_goes_with_its_last_user() -> None:
    rope = get_rope(8, 8, 64, 777.0)
    count = len(_LIVE)
    del rope
    gc.collect()
    assert len(_LIVE) == count - 1


@pytest.mark.parametrize("scaling", [None, LLAMA3, YARN, {"type": "linear", "factor": 2.0}])
def test_a_rope_built_on_the_meta_device_computes_on_the_cpu(scaling: Any) -> None:
    with torch.device("meta"):
        rope = RotaryEmbedding(16, 16, 32, 1e4, scaling)
    x = torch.randn(16)
    assert torch.equal(rotate(rope, x, 7), rotate(RotaryEmbedding(16, 16, 32, 1e4, scaling), x, 7))


def test_factors_divide_each_frequency() -> None:
    plain, _ = inverse_frequencies(8, 1e4, None)
    scaled, _ = inverse_frequencies(8, 1e4, {"rope_type": "factors", "factors": [1, 2, 4, 8]})
    assert torch.equal(scaled, plain / torch.tensor([1.0, 2.0, 4.0, 8.0]))


def test_unknown_scaling_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'dynamic'.*default, linear, llama3, yarn"):
        get_rope(8, 8, 64, 1e4, {"rope_type": "dynamic"})


def test_partly_rotated_heads_are_refused() -> None:
    with pytest.raises(ValueError, match="rotary_dim 4 of head_dim 8"):
        RotaryEmbedding(8, 4, 64, 1e4)


ORACLE_CASES = [
    LLAMA3,
    LLAMA3 | {"low_freq_factor": 2.0, "high_freq_factor": 8.0, "factor": 32.0},
    YARN,
    YARN | {"beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.5},
    YARN | {"mscale": 1.0, "mscale_all_dim": 0.5, "truncate": False},
    {"rope_type": "linear", "factor": 3.0},
]


@pytest.mark.oracle
@pytest.mark.parametrize("base", [10000.0, 500000.0])
@pytest.mark.parametrize("scaling", ORACLE_CASES)
def test_scaled_frequencies_equal_transformers(scaling: dict[str, Any], base: float) -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(
        hidden_size=128,
        num_attention_heads=2,
        max_position_embeddings=1024,
        rope_parameters={"rope_theta": base, **scaling},
    )
    inv_freq, factor = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, "cpu")
    ours, our_factor = inverse_frequencies(64, base, scaling)
    torch.testing.assert_close(ours, inv_freq, rtol=1e-6, atol=0)
    assert our_factor == pytest.approx(factor)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rotation_in_torch_equals_transformers_in_every_bit(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "compiled_rows", lambda: None)  # which rounds less often
    from transformers import LlamaConfig
    from transformers.models.llama import modeling_llama as oracle

    config = LlamaConfig(hidden_size=128, num_attention_heads=2, max_position_embeddings=512)
    positions = torch.tensor([0, 3, 100, 511])
    generator = torch.Generator().manual_seed(3)
    q, k = (torch.randn(4, heads, 64, generator=generator).to(dtype) for heads in (2, 1))
    cos, sin = oracle.LlamaRotaryEmbedding(config)(q, positions[None])
    want = oracle.apply_rotary_pos_emb(q[None], k[None], cos, sin, unsqueeze_dim=2)
    got = RotaryEmbedding(64, 64, 512, 10000.0).forward(positions.int(), q, k)
    assert torch.equal(got[0], want[0][0]) and torch.equal(got[1], want[1][0])
