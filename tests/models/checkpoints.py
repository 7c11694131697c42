"""Writes small random checkpoints: safetensors folders and GGUF files of the same weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from minisgl_lite.models import ModelConfig
from minisgl_lite.models.gguf.tensors import gguf_name
from minisgl_lite.models.weight import checkpoint_layout

Weights = dict[str, torch.Tensor]

BASE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "max_position_embeddings": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 99,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "eos_token_id": 2,
}
QWEN2 = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "use_sliding_window": False}
QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 16}


def random_weights(config: ModelConfig, seed: int = 0) -> Weights:
    """By the names of a checkpoint; scaled so that every part of the model matters."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for _, parts in checkpoint_layout(config):
        for name, shape in parts:
            values = torch.randn(shape, generator=generator)
            weights[name] = 1 + 0.3 * values if "norm" in name else 0.25 * values
    return weights


def write_folder(path: Path, hf: dict[str, Any], weights: Weights | None = None) -> Path:
    """``config.json`` and ``model.safetensors``; random weights unless given."""
    from safetensors.torch import save_file

    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(hf))
    if weights is None:
        weights = random_weights(ModelConfig.from_hf(hf))
    save_file(weights, str(path / "model.safetensors"), metadata={"format": "pt"})
    return path


def permuted(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """The row order that llama.cpp's converter gives q and k of Llama models."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def write_gguf(
    path: Path,
    config: ModelConfig,
    weights: Weights,
    *,
    quantise: dict[str, str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Path:
    """A file as llama.cpp's converter writes it; ``quantise`` maps endings of names to a type."""
    import gguf

    arch = config.model_type
    writer = gguf.GGUFWriter(str(path), arch)
    writer.add_context_length(config.rotary_config.max_position)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_qo_heads)
    writer.add_head_count_kv(config.num_kv_heads)
    writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rotary_config.base)
    add_tokenizer(writer, config.vocab_size)
    for key, value in (metadata or {}).items():
        writer.add_string(key, value) if isinstance(value, str) else writer.add_float32(key, value)
    for name, weight in weights.items():
        if arch == "llama" and ".q_proj." in name:
            weight = permuted(weight, config.num_qo_heads)
        if arch == "llama" and ".k_proj." in name:
            weight = permuted(weight, config.num_kv_heads)
        kind = next((t for end, t in (quantise or {}).items() if name.endswith(end)), "F32")
        block = gguf.GGMLQuantizationType[kind]
        data = gguf.quants.quantize(weight.numpy(), block)
        writer.add_tensor(gguf_name(name), data, raw_dtype=block)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_tokenizer(writer: Any, vocab_size: int) -> None:
    """A byte-level vocabulary: three special tokens, then characters, then one merge."""
    tokens = ["<|end|>", "<|start|>", "<|stop|>"]
    tokens += [chr(c) for c in range(0x21, 0x21 + vocab_size - 5)] + ["Ġ", "ab"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (vocab_size - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
