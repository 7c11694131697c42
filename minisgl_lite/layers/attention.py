"""The attention of one layer, up to the backend (mini-sglang: layers/attention.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from minisgl_lite.core import get_global_ctx
from minisgl_lite.distributed import get_tp_info
from minisgl_lite.utils import div_even

from .base import StateLessOP
from .norm import RMSNorm
from .rotary import get_rope

if TYPE_CHECKING:
    from minisgl_lite.models.config import RotaryConfig


class AttentionLayer(StateLessOP):
    """Splits q, k and v, normalises and rotates them, and hands them to the context's backend.

    The backend stores k and v in the pool and reads the history; this layer knows no addresses.
    ``q_norm`` and ``k_norm`` (over a head, before rotation) belong to the caller, who loads them.
    """

    def __init__(
        self,
        layer_id: int,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        rotary_config: RotaryConfig,
        q_norm: RMSNorm | None = None,
        k_norm: RMSNorm | None = None,
    ) -> None:
        if num_qo_heads % num_kv_heads != 0:
            raise ValueError(
                f"{num_qo_heads} query heads can't share {num_kv_heads} KV heads evenly."
            )
        tp_size = get_tp_info().size
        self.layer_id = layer_id
        self.head_dim = head_dim
        self.num_qo_heads = div_even(num_qo_heads, tp_size)
        self.num_kv_heads = div_even(num_kv_heads, tp_size, allow_replicate=True)
        self.qo_attn_dim = self.num_qo_heads * head_dim
        self.kv_attn_dim = self.num_kv_heads * head_dim
        self.rotary = get_rope(
            head_dim=head_dim,
            rotary_dim=rotary_config.rotary_dim,
            max_position=rotary_config.max_position,
            base=rotary_config.base,
            rope_scaling=rotary_config.scaling,
        )
        self.q_norm = q_norm
        self.k_norm = k_norm

    def forward(self, qkv: torch.Tensor) -> torch.Tensor:
        """(T, (H_q + 2·H_kv)·D) -> (T, H_q·D), this rank's heads, at the batch's positions."""
        ctx = get_global_ctx()
        batch, hooks = ctx.batch, ctx.hooks
        heads = [self.num_qo_heads, self.num_kv_heads, self.num_kv_heads]
        q, k, v = qkv.view(-1, sum(heads), self.head_dim).split_with_sizes(heads, dim=1)
        if self.q_norm is not None:
            q = self.q_norm.forward(q)
        if self.k_norm is not None:
            k = self.k_norm.forward(k)
        q, k = self.rotary.forward(batch.positions, q, k)  # (T, H_q, D), (T, H_kv, D)
        if hooks.active:
            hooks.emit("on_attention", self.layer_id, batch)
        o = ctx.attn_backend.forward(q, k, v, self.layer_id, batch)  # (T, H_q, D)
        if hooks.active:
            hooks.emit("on_attention_done", self.layer_id, batch, q, o)
        return o.reshape(-1, self.qo_attn_dim)
