"""From a checkpoint's tensors to the weights of one rank (mini-sglang: models/weight.py).

A checkpoint names q, k, v, gate and up apart and holds them whole; a model wants them merged and
cut. The model itself says what it wants, so every tensor is checked against it before use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch

from minisgl_lite.distributed import DistributedInfo, get_tp_info, use_tp_info
from minisgl_lite.distributed.info import SINGLE
from minisgl_lite.utils import div_ceil, div_even

from .config import ModelConfig
from .register import create_model


class TensorSource(Protocol):
    """A checkpoint file or folder, by the names that transformers gives the tensors."""

    path: str

    def names(self) -> set[str]: ...

    def native_name(self, name: str) -> str:
        """How the file itself calls the tensor ``name``."""

    def shape(self, name: str) -> tuple[int, ...]: ...

    def read(self, name: str) -> torch.Tensor:
        """A tensor of its own memory, in any floating dtype, on the CPU."""


class Part(NamedTuple):
    """One checkpoint tensor that goes into a weight."""

    name: str
    shape: tuple[int, ...]


def checkpoint_layout(config: ModelConfig) -> Iterator[tuple[str, list[Part]]]:
    """Each weight of the whole model, with the checkpoint tensors that make it when stacked."""
    q, kv, ffn = (
        config.num_qo_heads * config.head_dim,
        config.num_kv_heads * config.head_dim,
        config.intermediate_size,
    )
    merged = {
        "qkv_proj": {"q_proj": q, "k_proj": kv, "v_proj": kv},
        "gate_up_proj": {"gate_proj": ffn, "up_proj": ffn},
    }
    with use_tp_info(SINGLE), torch.device("meta"):
        weights = create_model(config).state_dict()
    for name, weight in weights.items():
        shape, layer = tuple(weight.shape), name.split(".")[-2]
        stack = merged.get(layer, {layer: shape[0]})
        yield (
            name,
            [Part(name.replace(layer, part), (rows, *shape[1:])) for part, rows in stack.items()],
        )


def shard(
    part: Part, tensor: torch.Tensor, config: ModelConfig, tp: DistributedInfo
) -> torch.Tensor:
    """The share of rank ``tp.rank``: rows, columns or all, filled up as the config is."""
    full, layer = config.filled_up(tp.size), part.name.split(".")[-2]
    if layer in ("k_proj", "v_proj"):
        heads = div_even(full.num_kv_heads, tp.size, allow_replicate=True)
        first = tp.rank * full.num_kv_heads // tp.size
        return _cut(tensor, 0, first * config.head_dim, heads * config.head_dim)
    whole = {
        "q_proj": full.num_qo_heads * full.head_dim,
        "o_proj": full.num_qo_heads * full.head_dim,
        "gate_proj": full.intermediate_size,
        "up_proj": full.intermediate_size,
        "down_proj": full.intermediate_size,
        "embed_tokens": full.vocab_size,
        "lm_head": full.vocab_size,
    }
    if layer not in whole:
        return tensor
    length = div_ceil(whole[layer], tp.size)
    return _cut(tensor, 1 if layer in ("o_proj", "down_proj") else 0, tp.rank * length, length)


def _cut(tensor: torch.Tensor, dim: int, start: int, length: int) -> torch.Tensor:
    """``[start, start + length)`` of dimension ``dim``; where the tensor ends early, zeros."""
    have = min(max(tensor.shape[dim] - start, 0), length)
    own = tensor.narrow(dim, start if have else 0, have)
    if have == length:
        return own
    shape = list(tensor.shape)
    shape[dim] = length - have
    return torch.cat([own, own.new_zeros(shape)], dim)


def _check_all(source: TensorSource, parts: list[Part], config: ModelConfig) -> None:
    """Raises ValueError for the first tensor that is missing, misshapen or left over."""
    present = source.names()
    for part in parts:
        where = f"{source.path}: tensor {source.native_name(part.name)!r}"
        if part.name not in present:
            raise ValueError(f"{where} is missing, expected shape {part.shape}.")
        if (found := source.shape(part.name)) != part.shape:
            raise ValueError(f"{where} has shape {found}, expected {part.shape}.")
    rest = present - {part.name for part in parts}
    if config.tie_word_embeddings:
        rest.discard("lm_head.weight")  # some checkpoints store the tied table twice
    for name in sorted(rest):
        raise ValueError(
            f"{source.path}: tensor {source.native_name(name)!r} of shape {source.shape(name)}"
            f" has no place in a {config.architectures[0]} (one of {len(rest)} such)."
        )


def load_weight(
    source: TensorSource, config: ModelConfig, dtype: torch.dtype, device: torch.device
) -> dict[str, torch.Tensor]:
    """The weights of the current rank, merged and cut, by the names of the model's state dict.

    All names and shapes are checked before the first tensor is read.

    Raises:
        ValueError: a wrong or partial checkpoint; names the tensor, its shape and the expected one.
    """
    tp = get_tp_info()
    layout = dict(checkpoint_layout(config))
    _check_all(source, [part for parts in layout.values() for part in parts], config)
    weights = {}
    for name, parts in layout.items():
        pieces = [shard(p, source.read(p.name), config, tp).to(device, dtype) for p in parts]
        weights[name] = _compact(pieces[0] if len(pieces) == 1 else torch.cat(pieces))
    return weights


def _compact(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous and alone in its memory: a cut would keep the whole tensor alive."""
    alone = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    if alone and tensor.is_contiguous():
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)
