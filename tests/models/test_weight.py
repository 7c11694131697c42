"""Merging and cutting of checkpoint tensors, and the errors of checkpoints that don't fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from minisgl_lite.distributed import DistributedInfo, use_tp_info
from minisgl_lite.models import ModelConfig, create_model, open_model
from minisgl_lite.models.weight import checkpoint_layout
from tests.models.checkpoints import BASE, QWEN2, QWEN3, random_weights, write_folder

CPU = torch.device("cpu")
Q = "model.layers.1.self_attn.q_proj.weight"


def load(path: Path, rank: int = 0, size: int = 1) -> dict[str, torch.Tensor]:
    with use_tp_info(DistributedInfo(rank, size)):
        return open_model(str(path)).state_dict(torch.float32, CPU)


def test_layout_names_what_a_checkpoint_holds() -> None:
    layout = dict(checkpoint_layout(ModelConfig.from_hf(BASE | QWEN2)))
    parts = layout["model.layers.0.self_attn.qkv_proj.bias"]
    assert [(part.name.split(".")[-2], part.shape) for part in parts] == [
        ("q_proj", (64,)),
        ("k_proj", (16,)),
        ("v_proj", (16,)),
    ]
    assert [part.name for part in layout["model.norm.weight"]] == ["model.norm.weight"]


def test_parts_are_merged_in_order(tmp_path: Path) -> None:
    weights = random_weights(ModelConfig.from_hf(BASE))
    merged = load(write_folder(tmp_path, BASE, weights))
    attn, mlp = "model.layers.0.self_attn.", "model.layers.0.mlp."
    qkv = torch.cat([weights[f"{attn}{p}_proj.weight"] for p in "qkv"])
    gate_up = torch.cat([weights[f"{mlp}{p}_proj.weight"] for p in ("gate", "up")])
    assert torch.equal(merged[f"{attn}qkv_proj.weight"], qkv)
    assert torch.equal(merged[f"{mlp}gate_up_proj.weight"], gate_up)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1, 2])
def test_weights_take_the_asked_dtype_and_own_their_memory(
    tmp_path: Path, dtype: torch.dtype, size: int
) -> None:
    source = open_model(str(write_folder(tmp_path, BASE)))
    with use_tp_info(DistributedInfo(0, size)):
        weights = source.state_dict(dtype, CPU)
    for weight in weights.values():
        assert weight.dtype == dtype
        assert weight.is_contiguous()
        assert weight.untyped_storage().nbytes() == weight.numel() * dtype.itemsize


@pytest.mark.parametrize("hf", [BASE, BASE | QWEN2, BASE | QWEN3])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_each_rank_gets_shapes_that_its_model_takes(
    tmp_path: Path, hf: dict[str, Any], size: int
) -> None:
    path = write_folder(tmp_path, hf)
    for rank in range(size):
        with use_tp_info(DistributedInfo(rank, size)), torch.device("meta"):
            model = create_model(open_model(str(path)).config)
        model.load_state_dict(load(path, rank, size))


def test_two_ranks_share_heads_columns_and_vocabulary(tmp_path: Path) -> None:
    weights = random_weights(ModelConfig.from_hf(BASE))
    path = write_folder(tmp_path, BASE, weights)
    first, second = load(path, 0, 2), load(path, 1, 2)
    name = "model.layers.0.self_attn."
    q, k, v = (weights[f"{name}{p}_proj.weight"] for p in "qkv")
    assert torch.equal(second[f"{name}qkv_proj.weight"], torch.cat([q[32:], k[8:], v[8:]]))
    o_proj = weights[f"{name}o_proj.weight"]
    both = [part[f"{name}o_proj.weight"] for part in (first, second)]
    assert torch.equal(torch.cat(both, dim=1), o_proj)
    table = weights["model.embed_tokens.weight"]  # 99 rows: one is filled up
    assert torch.equal(first["model.embed_tokens.weight"], table[:50])
    assert torch.equal(second["model.embed_tokens.weight"][:49], table[50:])
    assert torch.equal(second["model.embed_tokens.weight"][49], torch.zeros(64))


def test_four_ranks_hold_each_of_two_kv_heads_twice(tmp_path: Path) -> None:
    weights = random_weights(ModelConfig.from_hf(BASE))
    path = write_folder(tmp_path, BASE, weights)
    name = "model.layers.0.self_attn."
    k = weights[f"{name}k_proj.weight"]
    for rank in range(4):
        local = load(path, rank, 4)[f"{name}qkv_proj.weight"]  # 2 query heads, 1 + 1 KV
        head = rank // 2
        assert torch.equal(local[16:24], k[head * 8 : head * 8 + 8])


def test_uneven_heads_are_filled_up_with_zeros(tmp_path: Path) -> None:
    hf = BASE | {"num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 8}
    weights = random_weights(ModelConfig.from_hf(hf))
    path = write_folder(tmp_path, hf, weights)
    name = "model.layers.0.self_attn."
    q, k = weights[f"{name}q_proj.weight"], weights[f"{name}k_proj.weight"]
    second = load(path, 1, 2)
    qkv = second[f"{name}qkv_proj.weight"]  # 6 query heads, 2 + 2 KV heads
    assert torch.equal(qkv[:24], q[48:]) and not qkv[24:48].any()
    assert torch.equal(qkv[48:56], k[16:]) and not qkv[56:64].any()
    o_proj = second[f"{name}o_proj.weight"]
    assert torch.equal(o_proj[:, :24], weights[f"{name}o_proj.weight"][:, 48:])
    assert not o_proj[:, 24:].any()


def test_a_tied_head_may_be_stored_or_not(tmp_path: Path) -> None:
    hf = BASE | {"tie_word_embeddings": True}
    weights = random_weights(ModelConfig.from_hf(hf))
    assert "lm_head.weight" not in weights
    twice = weights | {"lm_head.weight": weights["model.embed_tokens.weight"].clone()}
    for i, stored in enumerate((weights, twice)):
        assert "lm_head.weight" not in load(write_folder(tmp_path / str(i), hf, stored))


def broken(tmp_path: Path, **changes: torch.Tensor | None) -> Path:
    """A checkpoint with tensors left out (None), replaced or added."""
    weights: dict[str, Any] = random_weights(ModelConfig.from_hf(BASE))
    weights |= {name.replace("__", "."): value for name, value in changes.items()}
    return write_folder(tmp_path, BASE, {k: v for k, v in weights.items() if v is not None})


def test_a_missing_tensor_is_named_with_its_shape(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"tensor '{Q}' is missing, expected shape \(64, 64\)"):
        load(broken(tmp_path, **{Q: None}))


def test_a_misshapen_tensor_is_named_with_both_shapes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"'{Q}' has shape \(64, 32\), expected \(64, 64\)"):
        load(broken(tmp_path, **{Q: torch.zeros(64, 32)}))


def test_a_tensor_of_another_architecture_is_named(tmp_path: Path) -> None:
    name = "model.layers.0.self_attn.q_proj.bias"
    with pytest.raises(ValueError, match=rf"'{name}' of shape \(64,\) has no place in a Llama"):
        load(broken(tmp_path, **{name: torch.zeros(64)}))


def test_errors_begin_with_the_path_and_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as caught:
        load(broken(tmp_path, **{"model.norm.weight": None}))
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)
