"""The two halves of a decoder layer (mini-sglang: models/utils.py)."""

from __future__ import annotations

import torch

from minisgl_lite.layers import (
    AttentionLayer,
    BaseOP,
    LinearColParallelMerged,
    LinearOProj,
    LinearQKVMerged,
    LinearRowParallel,
    RMSNorm,
    gelu_and_mul,
    silu_and_mul,
)

from .config import ModelConfig

_ACTIVATIONS = {"silu": silu_and_mul, "gelu": gelu_and_mul}


class GatedMLP(BaseOP):
    """down(act(gate(x)) · up(x)), with gate and up in one matrix."""

    def __init__(self, config: ModelConfig) -> None:
        if config.hidden_act not in _ACTIVATIONS:
            known = ", ".join(_ACTIVATIONS)
            raise ValueError(f"unknown activation {config.hidden_act!r}; known: {known}.")
        self.act_fn = _ACTIVATIONS[config.hidden_act]
        self.gate_up_proj = LinearColParallelMerged(
            config.hidden_size, [config.intermediate_size] * 2, has_bias=False
        )
        self.down_proj = LinearRowParallel(
            config.intermediate_size, config.hidden_size, has_bias=False
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(T, hidden) -> (T, hidden)."""
        return self.down_proj.forward(self.act_fn(self.gate_up_proj.forward(x)))


class RopeAttn(BaseOP):
    """Projections around an ``AttentionLayer``."""

    def __init__(
        self,
        config: ModelConfig,
        layer_id: int,
        *,
        has_attn_bias: bool = False,
        has_qk_norm: bool = False,
    ) -> None:
        head_dim, eps = config.head_dim, config.rms_norm_eps
        self.qkv_proj = LinearQKVMerged(
            hidden_size=config.hidden_size,
            head_dim=head_dim,
            num_qo_heads=config.num_qo_heads,
            num_kv_heads=config.num_kv_heads,
            has_bias=has_attn_bias,
        )
        self.q_norm = RMSNorm(head_dim, eps) if has_qk_norm else None
        self.k_norm = RMSNorm(head_dim, eps) if has_qk_norm else None
        self.attn = AttentionLayer(
            layer_id=layer_id,
            num_qo_heads=config.num_qo_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=head_dim,
            rotary_config=config.rotary_config,
            q_norm=self.q_norm,
            k_norm=self.k_norm,
        )
        self.o_proj = LinearOProj(
            head_dim * config.num_qo_heads, config.hidden_size, has_bias=False
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(T, hidden) -> (T, hidden)."""
        return self.o_proj.forward(self.attn.forward(self.qkv_proj.forward(x)))
