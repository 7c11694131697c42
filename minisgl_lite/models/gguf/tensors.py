"""The tensors of a GGUF file under the names and in the layout that transformers uses."""

from __future__ import annotations

import re

import torch

from minisgl_lite.models.config import ModelConfig

from .reader import GGUFFile

_OUTER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_IN_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# Read with the configuration: a divisor per rotary frequency, no weight of a layer.
ROPE_FREQS = "rope_freqs.weight"


def hf_name(name: str) -> str:
    """``blk.0.attn_q.weight`` -> ``model.layers.0.self_attn.q_proj.weight``; others stay."""
    if match := re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name):
        layer, part, kind = match.groups()
        return f"model.layers.{layer}.{_IN_BLOCK[part]}.{kind}" if part in _IN_BLOCK else name
    part, _, kind = name.rpartition(".")
    return f"{_OUTER[part]}.{kind}" if part in _OUTER else name


_NATIVE = {hf: native for native, hf in (*_OUTER.items(), *_IN_BLOCK.items())}


def gguf_name(name: str) -> str:
    """The inverse of ``hf_name``."""
    if match := re.fullmatch(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)", name):
        layer, part, kind = match.groups()
        return f"blk.{layer}.{_NATIVE[part]}.{kind}" if part in _NATIVE else name
    part, _, kind = name.rpartition(".")
    return f"{_NATIVE[part]}.{kind}" if part in _NATIVE else name


def unpermute(weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Undo llama.cpp's row order of q and k, (H·D, …) -> the same shape.

    Its rotary embedding turns neighbours (2i, 2i + 1); transformers' turns (i, i + D/2). Converters
    reorder the rows of each head for the former; this brings back the latter.
    """
    pairs = weight.unflatten(0, (num_heads, -1, 2))  # (H, D/2, 2, …)
    return pairs.transpose(1, 2).reshape(weight.shape)


class GGUFTensors:
    """A ``TensorSource`` over an open GGUF file."""

    def __init__(self, file: GGUFFile, config: ModelConfig) -> None:
        self.path = file.path
        self._file = file
        self._names = {hf_name(name): name for name in file.tensors if name != ROPE_FREQS}
        heads = {"q_proj": config.num_qo_heads, "k_proj": config.num_kv_heads}
        self._permuted_heads = heads if file.metadata["general.architecture"] == "llama" else {}

    def names(self) -> set[str]:
        return set(self._names)

    def native_name(self, name: str) -> str:
        return self._names.get(name) or gguf_name(name)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._file.tensors[self._names[name]].shape

    def read(self, name: str) -> torch.Tensor:
        """fp32, with q and k of Llama files in transformers' row order."""
        return self._ordered(name, self._file.read(self._names[name]))

    def read_blocks(self, name: str) -> tuple[str, torch.Tensor]:
        """The type of the tensor's blocks, and its bytes row by row: (rows, bytes of a row)."""
        native = self._names[name]
        info = self._file.tensors[native]
        rows = self._file.raw(native).view(info.shape[0], -1)
        return info.type.name, self._ordered(name, rows)

    def _ordered(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Rows in transformers' order. A row's blocks move together."""
        layer = name.split(".")[-2]
        if layer in self._permuted_heads:
            return unpermute(weight, self._permuted_heads[layer])
        return weight
