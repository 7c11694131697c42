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


class _Metadata:
    """Looks up ``<architecture>.<key>`` and says which key is missing or odd."""

    def __init__(self, file: GGUFFile) -> None:
        self.path = file.path
        self.values = file.metadata
        self.arch: str = file.metadata.get("general.architecture", "")
        if self.arch not in ARCHITECTURES:
            raise ValueError(
                f"{self.path}: architecture {self.arch!r} is not supported;"
                f" supported: {', '.join(ARCHITECTURES)}."
            )

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        value = self.values.get(f"{self.arch}.{key}", default)
        if not isinstance(value, kind):
            raise ValueError(
                f"{self.path}: metadata {self.arch}.{key} is {value!r}, expected {kind.__name__}."
            )
        return value


def config_from_gguf(file: GGUFFile) -> ModelConfig:
    """The model's configuration.

    Raises:
        ValueError: an architecture that is not supported, or metadata that are missing or odd.
    """
    meta = _Metadata(file)
    if meta.get("expert_count", int, 0):
        raise ValueError(f"{file.path}: mixtures of experts are not supported, only dense models.")
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise ValueError(f"{file.path}: tensor 'token_embd.weight' is missing or not a matrix.")
    heads, hidden = meta.get("attention.head_count", int), meta.get("embedding_length", int)
    head_dim = meta.get("attention.key_length", int, hidden // max(heads, 1))
    return ModelConfig(
        num_layers=meta.get("block_count", int),
        num_qo_heads=heads,
        num_kv_heads=meta.get("attention.head_count_kv", int, heads),
        head_dim=head_dim,
        hidden_size=hidden,
        vocab_size=embedding.shape[0],
        intermediate_size=meta.get("feed_forward_length", int),
        rms_norm_eps=meta.get("attention.layer_norm_rms_epsilon", float),
        rotary_config=_rotary_config(file, meta, head_dim),
        hidden_act="silu",
        tie_word_embeddings="output.weight" not in file.tensors,
        model_type=meta.arch,
        architectures=(ARCHITECTURES[meta.arch],),
    )


def _rotary_config(file: GGUFFile, meta: _Metadata, head_dim: int) -> RotaryConfig:
    return RotaryConfig(
        head_dim=head_dim,
        rotary_dim=meta.get("rope.dimension_count", int, head_dim),
        max_position=meta.get("context_length", int),
        base=meta.get("rope.freq_base", float, 10000.0),
        scaling=_rope_scaling(file, meta),
    )


def _rope_scaling(file: GGUFFile, meta: _Metadata) -> dict[str, Any] | None:
    """Llama 3's frequencies lie in a tensor; the other kinds are named in the metadata."""
    if ROPE_FREQS in file.tensors:
        return {"rope_type": "factors", "factors": file.read(ROPE_FREQS).tolist()}
    kind = meta.get("rope.scaling.type", str, "none")
    if kind == "none":
        return None
    scaling: dict[str, Any] = {"rope_type": kind, "factor": meta.get("rope.scaling.factor", float)}
    if kind == "yarn":
        key = "rope.scaling.original_context_length"
        scaling["original_max_position_embeddings"] = meta.get(key, int)
    return scaling
