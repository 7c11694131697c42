"""The shape of a model (mini-sglang: models/config.py, without its mixture-of-experts fields)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from minisgl_lite.utils import align_ceil

from .json_file import FLAG, NUMBER, NUMBERS, OBJECT, POSITIVE, TEXT, TEXTS, WHOLE, check_kinds


@dataclass(frozen=True)
class RotaryConfig:
    """Parameters of the rotary embedding; ``scaling`` as in ``layers/rope_scaling.py``, or None."""

    head_dim: int
    rotary_dim: int
    max_position: int
    base: float
    scaling: dict[str, Any] | None


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of the whole model, before any tensor-parallel cut.

    ``rotary_config.max_position`` is the context length in tokens.

    Raises:
        ValueError: a size that is no positive integer, or query heads that KV heads don't divide.
    """

    num_layers: int
    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    vocab_size: int
    intermediate_size: int
    rms_norm_eps: float
    rotary_config: RotaryConfig
    hidden_act: str
    tie_word_embeddings: bool
    model_type: str
    architectures: tuple[str, ...]

    def __post_init__(self) -> None:
        sizes = {
            name: value
            for name, value in vars(self).items()
            if name.startswith("num_") or name.endswith(("_size", "_dim"))
        } | {"max_position": self.rotary_config.max_position}
        for name, value in sizes.items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"model config: {name} is {value!r}, allowed: an integer of 1 or more."
                )
        if self.num_qo_heads % self.num_kv_heads != 0:
            raise ValueError(
                f"model config: {self.num_qo_heads} query heads can't share"
                f" {self.num_kv_heads} KV heads evenly."
            )

    def filled_up(self, size: int) -> ModelConfig:
        """With empty heads and MLP columns added where ``size`` ranks can't share evenly.

        Their weights are zeros: they add nothing. SmolLM2's 9 query and 3 KV heads become 12 and 4
        for two ranks; heads are added to the end, in whole groups.
        """
        heads, kv_heads = self.num_qo_heads, self.num_kv_heads
        shared = kv_heads % size == 0 or size % kv_heads == 0
        if not shared or heads % size != 0:
            group, kv_heads = heads // kv_heads, align_ceil(kv_heads, size)
            heads = kv_heads * group
        return replace(
            self,
            num_qo_heads=heads,
            num_kv_heads=kv_heads,
            intermediate_size=align_ceil(self.intermediate_size, size),
        )

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> ModelConfig:
        """From the contents of a checkpoint's ``config.json``.

        Raises:
            ValueError: an entry is missing or has a value that can't be used.
        """
        hf = dict(config)
        for key in _REQUIRED:
            if hf.get(key) is None:
                raise ValueError(f"config.json has no {key!r}; needed: {', '.join(_REQUIRED)}.")
        check_kinds(hf, _KINDS, "config.json")
        heads = hf["num_attention_heads"]
        head_dim = hf.get("head_dim") or hf["hidden_size"] // max(heads, 1)
        return cls(
            num_layers=hf["num_hidden_layers"],
            num_qo_heads=heads,
            num_kv_heads=hf.get("num_key_value_heads") or heads,
            head_dim=head_dim,
            hidden_size=hf["hidden_size"],
            vocab_size=hf["vocab_size"],
            intermediate_size=hf["intermediate_size"],
            rms_norm_eps=hf["rms_norm_eps"],
            rotary_config=_rotary_config(hf, head_dim),
            hidden_act=hf.get("hidden_act") or "silu",
            tie_word_embeddings=bool(hf.get("tie_word_embeddings", False)),
            model_type=hf.get("model_type", "llama"),
            architectures=tuple(hf["architectures"]),
        )


_REQUIRED = (
    "architectures",
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "rms_norm_eps",
    "vocab_size",
)

_KINDS = {
    "architectures": TEXTS,
    "hidden_size": WHOLE,
    "intermediate_size": WHOLE,
    "max_position_embeddings": WHOLE,
    "num_attention_heads": WHOLE,
    "num_key_value_heads": WHOLE,
    "num_hidden_layers": WHOLE,
    "head_dim": WHOLE,
    "vocab_size": WHOLE,
    "sliding_window": WHOLE,
    "use_sliding_window": FLAG,
    "rms_norm_eps": POSITIVE,
    "rope_theta": POSITIVE,
    "partial_rotary_factor": POSITIVE,
    "rope_parameters": OBJECT,
    "rope_scaling": OBJECT,
    "hidden_act": TEXT,
    "model_type": TEXT,
    "tie_word_embeddings": FLAG,
}

_SCALING_KINDS = {
    "type": TEXT,
    "rope_type": TEXT,
    "rope_theta": POSITIVE,
    "factor": POSITIVE,
    "low_freq_factor": POSITIVE,
    "high_freq_factor": POSITIVE,
    "original_max_position_embeddings": POSITIVE,
    "attention_factor": NUMBER,
    "beta_fast": POSITIVE,
    "beta_slow": POSITIVE,
    "mscale": NUMBER,
    "mscale_all_dim": NUMBER,
    "truncate": FLAG,
    "factors": NUMBERS,
}

_SCALING_NEEDS = {
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor",),
}


def _rotary_config(hf: Mapping[str, Any], head_dim: int) -> RotaryConfig:
    """From ``rope_parameters`` (transformers 5) or ``rope_theta`` and ``rope_scaling`` (4)."""
    scaling = dict(hf.get("rope_parameters") or hf.get("rope_scaling") or {})
    check_kinds(scaling, _SCALING_KINDS, "config.json, rope scaling")
    base = float(scaling.pop("rope_theta", None) or hf.get("rope_theta") or 10000.0)
    kind = scaling.pop("type", None)
    scaling.setdefault("rope_type", kind or "default")
    if scaling["rope_type"] in ("llama3", "yarn"):
        scaling.setdefault("original_max_position_embeddings", hf["max_position_embeddings"])
    for key in _SCALING_NEEDS.get(scaling["rope_type"], ()):
        if scaling.get(key) is None:
            raise ValueError(
                f"config.json: rope scaling {scaling['rope_type']!r} needs {key!r}, which is"
                f" missing."
            )
    return RotaryConfig(
        head_dim=head_dim,
        rotary_dim=int(head_dim * hf.get("partial_rotary_factor", 1.0)),
        max_position=_context_length(hf),
        base=base,
        scaling=None if scaling["rope_type"] == "default" else scaling,
    )


def _context_length(hf: Mapping[str, Any]) -> int:
    """The longest context; with a sliding window the window, inside which all is seen."""
    length, window = hf["max_position_embeddings"], hf.get("sliding_window")
    return min(length, window) if window and hf.get("use_sliding_window", True) else length
