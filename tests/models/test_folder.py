"""Checkpoint folders: which files are needed, and what their errors say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from minisgl_lite.models import ModelConfig, open_model
from tests.models.checkpoints import BASE, random_weights, write_folder

CPU = torch.device("cpu")


def test_shards_are_read_together(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    weights = random_weights(ModelConfig.from_hf(BASE))
    write_folder(tmp_path, BASE, weights)
    whole = open_model(str(tmp_path)).state_dict(torch.float32, CPU)
    (tmp_path / "model.safetensors").unlink()
    names = sorted(weights)
    save_file({n: weights[n] for n in names[::2]}, tmp_path / "model-1.safetensors")
    save_file({n: weights[n] for n in names[1::2]}, tmp_path / "model-2.safetensors")
    shards = open_model(str(tmp_path)).state_dict(torch.float32, CPU)
    assert whole.keys() == shards.keys()
    assert all(torch.equal(whole[name], shards[name]) for name in whole)


def test_a_shard_that_the_index_names_must_be_there(tmp_path: Path) -> None:
    write_folder(tmp_path, BASE)
    index = {"weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(FileNotFoundError, match=r"00002-of-00002.*'model\.norm\.weight'"):
        open_model(str(tmp_path)).state_dict(torch.float32, CPU)


def test_derived_buffers_of_old_checkpoints_are_ignored(tmp_path: Path) -> None:
    weights = random_weights(ModelConfig.from_hf(BASE))
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(4)
    write_folder(tmp_path, BASE, weights)
    open_model(str(tmp_path)).state_dict(torch.float32, CPU)


def test_a_folder_without_weights_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(BASE))
    with pytest.raises(FileNotFoundError, match=r"no \*\.safetensors file"):
        open_model(str(tmp_path)).state_dict(torch.float32, CPU)


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    write_folder(tmp_path, BASE)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"model\.safetensors: not a usable safetensors file"):
        open_model(str(tmp_path)).state_dict(torch.float32, CPU)


def test_a_folder_without_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        open_model(str(tmp_path))


@pytest.mark.parametrize("text", ["{", "[]", "\x00"])
def test_a_broken_config_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"config\.json: "):
        open_model(str(tmp_path))


def test_an_unknown_architecture_is_named_with_the_known_ones(tmp_path: Path) -> None:
    hf = BASE | {"architectures": ["MambaForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(hf))
    with pytest.raises(ValueError, match=r"'MambaForCausalLM'; known: LlamaForCausalLM, Mistral"):
        open_model(str(tmp_path))


def test_end_of_sequence_ids_come_from_the_generation_config_first(tmp_path: Path) -> None:
    write_folder(tmp_path, BASE)
    assert open_model(str(tmp_path)).eos_token_ids == (2,)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 6]}))
    assert open_model(str(tmp_path)).eos_token_ids == (5, 6)


def test_a_folder_without_tokenizer_says_so_when_one_is_asked_for(tmp_path: Path) -> None:
    write_folder(tmp_path, BASE)
    source = open_model(str(tmp_path))
    with pytest.raises(ValueError, match=r"tokenizer\.json is missing"):
        source.tokenizer()
