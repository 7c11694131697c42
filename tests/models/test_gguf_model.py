"""GGUF files as models: the same weights as the checkpoint they were made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from minisgl_lite.models import ModelConfig, open_model
from minisgl_lite.models.gguf import GGUFFile, config_from_gguf
from minisgl_lite.models.gguf.tensors import gguf_name, hf_name, unpermute
from tests.models.checkpoints import (
    BASE,
    QWEN2,
    QWEN3,
    permuted,
    random_weights,
    write_folder,
    write_gguf,
)

CPU = torch.device("cpu")
FAMILIES: list[dict[str, Any]] = [BASE, BASE | QWEN2, BASE | QWEN3]


@pytest.mark.parametrize("hf", FAMILIES, ids=["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [False, True])
def test_a_file_gives_the_weights_and_config_of_its_folder(
    tmp_path: Path, hf: dict[str, Any], tied: bool
) -> None:
    hf = hf | {"tie_word_embeddings": tied}
    config = ModelConfig.from_hf(hf)
    weights = random_weights(config)
    folder = open_model(str(write_folder(tmp_path / "folder", hf, weights)))
    file = open_model(str(write_gguf(tmp_path / "model.gguf", config, weights)))
    assert file.config.rms_norm_eps == pytest.approx(config.rms_norm_eps)
    assert vars(file.config) | {"rms_norm_eps": 0} == vars(config) | {"rms_norm_eps": 0}
    ours, theirs = (source.state_dict(torch.float32, CPU) for source in (file, folder))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_quantised_files_load(tmp_path: Path) -> None:
    hf = BASE | {"tie_word_embeddings": True}
    config = ModelConfig.from_hf(hf)
    weights = random_weights(config)
    kinds = {"embed_tokens.weight": "Q8_0", "v_proj.weight": "BF16", "o_proj.weight": "F16"}
    kinds |= {"q_proj.weight": "Q4_1", "up_proj.weight": "Q4_0"}
    file = open_model(str(write_gguf(tmp_path / "q.gguf", config, weights, quantise=kinds)))
    loaded = file.state_dict(torch.float32, CPU)
    table = loaded["model.embed_tokens.weight"] - weights["model.embed_tokens.weight"]
    assert table.abs().max() < 0.01
    qkv = loaded["model.layers.0.self_attn.qkv_proj.weight"]
    q = weights["model.layers.0.self_attn.q_proj.weight"]
    assert (qkv[:64] - q).abs().max() < 0.15


def test_names_map_both_ways() -> None:
    names = [name for hf in FAMILIES for name in random_weights(ModelConfig.from_hf(hf))]
    for name in names:
        assert gguf_name(name) != name
        assert hf_name(gguf_name(name)) == name
    assert hf_name("blk.0.ffn_gate_exps.weight") == "blk.0.ffn_gate_exps.weight"


@pytest.mark.parametrize("shape", [(48, 5), (48,)])
def test_llama_cpps_row_order_is_undone(shape: tuple[int, ...]) -> None:
    weight = torch.randn(shape)
    assert torch.equal(unpermute(permuted(weight, 3), 3), weight)
    assert not torch.equal(permuted(weight, 3), weight)


def test_llama3_frequencies_are_read_from_their_tensor(tmp_path: Path) -> None:
    config = ModelConfig.from_hf(BASE)
    weights = random_weights(config) | {"rope_freqs.weight": torch.tensor([1.0, 1.0, 4.0, 8.0])}
    file = open_model(str(write_gguf(tmp_path / "m.gguf", config, weights)))
    assert file.config.rotary_config.scaling == {"rope_type": "factors", "factors": [1, 1, 4, 8]}
    file.state_dict(torch.float32, CPU)


def test_rope_scaling_is_read_from_the_metadata(tmp_path: Path) -> None:
    config = ModelConfig.from_hf(BASE)
    keys = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    path = write_gguf(tmp_path / "m.gguf", config, random_weights(config), metadata=keys)
    scaling = open_model(str(path)).config.rotary_config.scaling
    assert scaling == {"rope_type": "linear", "factor": 4.0}


def test_a_partial_file_names_the_tensor_as_the_file_would(tmp_path: Path) -> None:
    config = ModelConfig.from_hf(BASE)
    weights = random_weights(config)
    del weights["model.layers.1.self_attn.k_proj.weight"]
    source = open_model(str(write_gguf(tmp_path / "m.gguf", config, weights)))
    with pytest.raises(ValueError, match=r"tensor 'blk\.1\.attn_k\.weight' is missing.*\(16, 64\)"):
        source.state_dict(torch.float32, CPU)


def test_a_misshapen_tensor_is_named_with_both_shapes(tmp_path: Path) -> None:
    config = ModelConfig.from_hf(BASE)
    weights = random_weights(config) | {"model.norm.weight": torch.ones(32)}
    source = open_model(str(write_gguf(tmp_path / "m.gguf", config, weights)))
    with pytest.raises(ValueError, match=r"'output_norm\.weight' has shape \(32,\).*\(64,\)"):
        source.state_dict(torch.float32, CPU)


def test_a_tensor_without_a_place_is_named(tmp_path: Path) -> None:
    config = ModelConfig.from_hf(BASE)
    weights = random_weights(config) | {"blk.0.ffn_gate_inp.weight": torch.ones(4, 64)}
    source = open_model(str(write_gguf(tmp_path / "m.gguf", config, weights)))
    with pytest.raises(ValueError, match=r"'blk\.0\.ffn_gate_inp\.weight' of shape \(4, 64\)"):
        source.state_dict(torch.float32, CPU)


def opened(tmp_path: Path, edit: Any) -> ModelConfig:
    """The configuration of a good file whose metadata were edited after parsing."""
    config = ModelConfig.from_hf(BASE)
    file = GGUFFile(write_gguf(tmp_path / "m.gguf", config, random_weights(config)))
    edit(file.metadata)
    return config_from_gguf(file)


def test_an_unsupported_architecture_is_named_with_the_supported_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"m\.gguf: architecture 'gemma'.*llama, qwen2, qwen3"):
        opened(tmp_path, lambda m: m.update({"general.architecture": "gemma"}))


def test_a_missing_size_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"llama\.block_count is missing, expected int"):
        opened(tmp_path, lambda m: m.pop("llama.block_count"))


def test_mixtures_of_experts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mixtures of experts"):
        opened(tmp_path, lambda m: m.update({"llama.expert_count": 8}))
