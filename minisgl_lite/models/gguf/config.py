"""The shape of the model in a GGUF file, from its metadata."""

from __future__ import annotations

from typing import Any

from minisgl_lite.models.config import ModelConfig, RotaryConfig

from .reader import GGUFFile
from .tensors import ROPE_FREQS

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}


def _architecture(file: GGUFFile) -> str:
    arch = file.metadata.get("general.architecture")
    if arch not in ARCHITECTURES:
        raise ValueError(
            f"{file.path}: architecture {arch!r} is not supported;"
            f" supported: {', '.join(ARCHITECTURES)}."
        )
    return str(arch)


def config_from_gguf(file: GGUFFile) -> ModelConfig:
    """The model's configuration.

    Raises:
        ValueError: an architecture that is not supported, or metadata that are missing or odd.
    """
    arch = _architecture(file)

    def size(key: str, default: int | None = None) -> int:
        return int(file.value(f"{arch}.{key}", int, default))

    if size("expert_count", 0):
        raise ValueError(f"{file.path}: mixtures of experts are not supported, only dense models.")
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise ValueError(f"{file.path}: tensor 'token_embd.weight' is missing or not a matrix.")
    heads, hidden = size("attention.head_count"), size("embedding_length")
    head_dim = size("attention.key_length", hidden // max(heads, 1))
    return ModelConfig(
        num_layers=size("block_count"),
        num_qo_heads=heads,
        num_kv_heads=size("attention.head_count_kv", heads),
        head_dim=head_dim,
        hidden_size=hidden,
        vocab_size=embedding.shape[0],
        intermediate_size=size("feed_forward_length"),
        rms_norm_eps=file.value(f"{arch}.attention.layer_norm_rms_epsilon", float),
        rotary_config=_rotary_config(file, arch, head_dim),
        hidden_act="silu",
        tie_word_embeddings="output.weight" not in file.tensors,
        model_type=arch,
        architectures=(ARCHITECTURES[arch],),
    )


def _rotary_config(file: GGUFFile, arch: str, head_dim: int) -> RotaryConfig:
    return RotaryConfig(
        head_dim=head_dim,
        rotary_dim=file.value(f"{arch}.rope.dimension_count", int, head_dim),
        max_position=file.value(f"{arch}.context_length", int),
        base=file.value(f"{arch}.rope.freq_base", float, 10000.0),
        scaling=_rope_scaling(file, f"{arch}.rope.scaling"),
    )


def _rope_scaling(file: GGUFFile, prefix: str) -> dict[str, Any] | None:
    """Llama 3's frequencies lie in a tensor; the other kinds are named in the metadata."""
    if ROPE_FREQS in file.tensors:
        return {"rope_type": "factors", "factors": file.read(ROPE_FREQS).tolist()}
    kind = file.value(f"{prefix}.type", str, "none")
    if kind == "none":
        return None
    scaling: dict[str, Any] = {"rope_type": kind, "factor": file.value(f"{prefix}.factor", float)}
    if kind == "yarn":
        trained = file.value(f"{prefix}.original_context_length", int)
        scaling["original_max_position_embeddings"] = trained
    return scaling
