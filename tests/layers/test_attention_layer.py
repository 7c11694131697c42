"""What the attention layer hands to the backend."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from minisgl_lite.core import Batch, Context, use_ctx
from minisgl_lite.layers import AttentionLayer, RMSNorm
from minisgl_lite.models import RotaryConfig

ROTARY = RotaryConfig(head_dim=8, rotary_dim=8, max_position=32, base=1e4, scaling=None)


class Spy:
    """A backend that keeps what it gets and returns q."""

    def forward(self, q: Any, k: Any, v: Any, layer_id: int, batch: Batch) -> torch.Tensor:
        self.q, self.k, self.v, self.layer_id, self.batch = q, k, v, layer_id, batch
        return q


def run(layer: AttentionLayer, qkv: torch.Tensor, positions: list[int]) -> tuple[Spy, torch.Tensor]:
    ctx, spy = Context(page_size=1), Spy()
    ctx.attn_backend = spy  # type: ignore[assignment]
    batch = Batch(reqs=[], phase="decode")
    batch.positions = torch.tensor(positions, dtype=torch.int32)
    with use_ctx(ctx), ctx.forward_batch(batch):
        out = layer.forward(qkv)
    assert spy.batch is batch
    return spy, out


def test_heads_are_split_and_rotated_at_the_batchs_positions() -> None:
    layer = AttentionLayer(3, 4, 2, 8, ROTARY)
    qkv = torch.randn(5, (4 + 2 + 2) * 8)
    spy, out = run(layer, qkv, [0, 1, 2, 7, 31])
    assert (spy.q.shape, spy.k.shape, spy.v.shape) == ((5, 4, 8), (5, 2, 8), (5, 2, 8))
    assert spy.layer_id == 3
    assert torch.equal(spy.v, qkv[:, 48:].reshape(5, 2, 8))
    assert torch.equal(spy.q[0].flatten(), qkv[0, :32])  # position 0
    assert not torch.equal(spy.k[3].flatten(), qkv[3, 32:48])
    assert torch.equal(out, spy.q.flatten(1))


def test_norms_come_before_the_rotation() -> None:
    q_norm, k_norm = RMSNorm(8, 1e-6), RMSNorm(8, 1e-6)
    q_norm.load_state_dict({"weight": torch.full((8,), 2.0)})
    k_norm.load_state_dict({"weight": torch.full((8,), 0.5)})
    layer = AttentionLayer(0, 4, 2, 8, ROTARY, q_norm, k_norm)
    spy, _ = run(layer, torch.randn(3, 64) * 10, [4, 5, 6])
    # A rotation keeps the length of a head, a norm sets it.
    torch.testing.assert_close(spy.q.pow(2).mean(-1), torch.full((3, 4), 4.0))
    torch.testing.assert_close(spy.k.pow(2).mean(-1), torch.full((3, 2), 0.25))


def test_uneven_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="4 query heads can't share 3 KV heads"):
        AttentionLayer(0, 4, 3, 8, ROTARY)
