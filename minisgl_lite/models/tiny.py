"""``tiny``: a seeded random Llama for tests and toy examples. It computes, but says nothing.

The scales are chosen for what such a model is used for. Attention weighs as much as the token
itself, so that a wrong K/V shows in the output and greedy text does not run in short circles. The
head is scaled up until the two best logits are normally more than 1e-2 apart, so that no rounding
decides between them. Bytes that print get larger rows of the head: output can be read, if not
understood.
"""

from __future__ import annotations

import torch

from .config import ModelConfig, RotaryConfig
from .source import ModelSource
from .tokenizer import ByteTokenizer, Tokenizer
from .weight import checkpoint_layout, load_weight

TINY_CONFIG = ModelConfig(
    num_layers=2,
    num_qo_heads=4,
    num_kv_heads=2,
    head_dim=8,
    hidden_size=32,
    vocab_size=ByteTokenizer.vocab_size,
    intermediate_size=64,
    rms_norm_eps=1e-5,
    rotary_config=RotaryConfig(
        head_dim=8, rotary_dim=8, max_position=512, base=10000.0, scaling=None
    ),
    hidden_act="silu",
    tie_word_embeddings=False,
    model_type="llama",
    architectures=("LlamaForCausalLM",),
)

# Standard deviations by the last part of the layer's name.
_SCALES = {"embed_tokens": 1.0, "q_proj": 0.3, "k_proj": 0.3, "lm_head": 6.0}
_OTHERS = 0.3
_UNPRINTABLE = 0.25


def _random_weight(name: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    layer = name.split(".")[-2]
    if layer.endswith("norm"):
        return torch.ones(shape)
    weight = torch.randn(shape, generator=generator) * _SCALES.get(layer, _OTHERS)
    if layer == "lm_head":
        weight[:0x20] *= _UNPRINTABLE
        weight[0x7F:] *= _UNPRINTABLE
    return weight


class _TinyTensors:
    """A ``TensorSource`` of random weights: the same seed gives the same numbers."""

    def __init__(self, name: str, seed: int) -> None:
        self.path = name
        generator = torch.Generator().manual_seed(seed)
        self._weights = {
            part.name: _random_weight(part.name, part.shape, generator)
            for _, parts in checkpoint_layout(TINY_CONFIG)
            for part in parts
        }

    def names(self) -> set[str]:
        return set(self._weights)

    def native_name(self, name: str) -> str:
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._weights[name].shape)

    def read(self, name: str) -> torch.Tensor:
        return self._weights[name].clone()


class TinySource(ModelSource):
    """The tiny model with one seed; ``tiny`` is ``tiny:0``."""

    whole_config = TINY_CONFIG
    eos_token_ids = ByteTokenizer.eos_token_ids

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self._seed = seed

    def state_dict(self, dtype: torch.dtype, device: torch.device) -> dict[str, torch.Tensor]:
        return load_weight(_TinyTensors(self.name, self._seed), TINY_CONFIG, dtype, device)

    def _make_tokenizer(self) -> Tokenizer:
        return ByteTokenizer()


def open_tiny(name: str) -> TinySource:
    """``tiny`` or ``tiny:SEED``.

    Raises:
        ValueError: the seed is not a number from 0 to 2**63 - 1.
    """
    seed = name.removeprefix("tiny").removeprefix(":") or "0"
    if not seed.isascii() or not seed.isdigit() or int(seed) >= 2**63 or name == "tiny:":
        raise ValueError(f"model {name!r}: allowed: 'tiny' or 'tiny:SEED' with 0 <= SEED < 2**63.")
    return TinySource(name, int(seed))
