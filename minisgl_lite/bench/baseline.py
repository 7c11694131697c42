"""transformers' own model, with the weights that our engine loaded: same file, same fp32."""

from __future__ import annotations

from typing import Any

import torch

from ..models import open_model
from ..models.config import ModelConfig
from ..utils import require


def transformers_model(name: str, dtype: torch.dtype) -> Any:
    """A ``LlamaForCausalLM`` of transformers with the weights of ``name``, on the CPU.

    Raises:
        ImportError: transformers is not there (extra ``bench``).
        ValueError: the model is no Llama.
    """
    transformers: Any = require("transformers", extra="bench")
    source = open_model(name)
    config = source.whole_config
    if config.architectures[0] != "LlamaForCausalLM":
        raise ValueError(f"{name} is a {config.architectures[0]}; the baseline is for Llama.")
    rotary = config.rotary_config
    settings = transformers.LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_qo_heads,
        num_key_value_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        max_position_embeddings=rotary.max_position,
        rms_norm_eps=config.rms_norm_eps,
        rope_theta=rotary.base,
        tie_word_embeddings=config.tie_word_embeddings,
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(settings)
    weights = _apart(source.state_dict(torch.float32, torch.device("cpu")), config)
    model = model.to_empty(device="cpu")
    model.model.rotary_emb = type(model.model.rotary_emb)(settings)  # its buffers are not weights
    missing, unexpected = model.load_state_dict(weights, strict=False)
    missing = [name for name in missing if name != "lm_head.weight"]
    assert not missing and not unexpected, (missing, unexpected)
    model.tie_weights()
    return model.to(dtype).eval()


def _apart(merged: dict[str, torch.Tensor], config: ModelConfig) -> dict[str, torch.Tensor]:
    """Our stacked projections as transformers has them."""
    q, kv = config.num_qo_heads * config.head_dim, config.num_kv_heads * config.head_dim
    stacks = {
        "qkv_proj": {"q_proj": q, "k_proj": kv, "v_proj": kv},
        "gate_up_proj": {
            "gate_proj": config.intermediate_size,
            "up_proj": config.intermediate_size,
        },
    }
    weights: dict[str, torch.Tensor] = {}
    for name, tensor in merged.items():
        layer = name.split(".")[-2]
        if layer not in stacks:
            weights[name] = tensor
            continue
        sizes = stacks[layer]
        for part, piece in zip(sizes, tensor.split(list(sizes.values())), strict=True):
            weights[name.replace(layer, part)] = piece
    return weights
