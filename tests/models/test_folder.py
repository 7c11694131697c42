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


ODD_ENTRIES = [
    ({"hidden_size": "64"}, "hidden_size"),
    ({"hidden_size": True}, "hidden_size"),
    ({"num_attention_heads": 0}, "num_qo_heads"),
    ({"num_key_value_heads": [2]}, "num_key_value_heads"),
    ({"vocab_size": 99.5}, "vocab_size"),
    ({"head_dim": "8"}, "head_dim"),
    ({"rms_norm_eps": "small"}, "rms_norm_eps"),
    ({"rms_norm_eps": float("nan")}, "rms_norm_eps"),
    ({"rope_theta": -1}, "rope_theta"),
    ({"architectures": "LlamaForCausalLM"}, "architectures"),
    ({"architectures": []}, "architectures"),
    ({"architectures": [["Llama"]]}, "architectures"),
    ({"rope_scaling": "linear"}, "rope_scaling"),
    ({"rope_scaling": {"rope_type": 3}}, "rope_type"),
    ({"rope_scaling": {"rope_type": "linear"}}, "'factor', which is missing"),
    ({"rope_scaling": {"rope_type": "linear", "factor": "8"}}, "factor"),
    ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "'low_freq_factor'"),
    ({"sliding_window": "wide"}, "sliding_window"),
    ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
    ({"model_type": 7}, "model_type"),
    ({"eos_token_id": "</s>"}, "eos_token_id"),
    ({"eos_token_id": [2, None]}, "eos_token_id"),
]


@pytest.mark.parametrize(("odd", "named"), ODD_ENTRIES)
def test_an_odd_entry_of_the_config_is_named_in_one_line(
    tmp_path: Path, odd: dict, named: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(BASE | odd))
    with pytest.raises(ValueError) as error:
        open_model(str(tmp_path))
    text = str(error.value)
    assert named in text and str(tmp_path) in text and "\n" not in text


@pytest.mark.parametrize("text", ["[]", "{", '{"weight_map": []}', '{"weight_map": {"w": 3}}'])
def test_an_odd_index_is_named(tmp_path: Path, text: str) -> None:
    write_folder(tmp_path, BASE)
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises((ValueError, FileNotFoundError), match=str(tmp_path)):
        open_model(str(tmp_path)).state_dict(torch.float32, CPU)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"model": 3}'])
def test_an_odd_tokenizer_file_is_named(tmp_path: Path, text: str) -> None:
    write_folder(tmp_path, BASE)
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ValueError, match=r"tokenizer\.json: not a usable tokenizer"):
        open_model(str(tmp_path)).tokenizer()


@pytest.mark.parametrize("template", [7, {"default": "x"}, [{"name": "default", "template": 3}]])
def test_an_odd_chat_template_is_named(tmp_path: Path, template: object) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    write_folder(tmp_path, BASE)
    Tokenizer(BPE()).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    with pytest.raises(ValueError, match=r"tokenizer_config\.json: 'chat_template'"):
        open_model(str(tmp_path)).tokenizer()
