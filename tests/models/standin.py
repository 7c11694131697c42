"""Runs a model without the engine: a dense causal attention in place of pool and page table."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from minisgl_lite.core import Batch, Context, use_ctx
from minisgl_lite.models import BaseLLMModel, ModelSource, create_model


class _AllRows:
    """Metadata of a prefill whose head keeps every row."""

    def __init__(self, length: int) -> None:
        self.length = length

    def get_last_indices(self, bs: int) -> torch.Tensor:
        return torch.arange(self.length)


class DenseAttention:
    """One sequence, all of it new: plain softmax attention under the causal mask."""

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        heads = [x.transpose(0, 1) for x in (q, k, v)]  # (H, T, D)
        out = F.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)
        return out.transpose(0, 1)  # (T, H_q, D)


def build(source: ModelSource, dtype: torch.dtype = torch.float32) -> BaseLLMModel:
    """The model of ``source`` with its weights, as an engine builds it."""
    with torch.device("meta"):
        model = create_model(source.config)
    model.load_state_dict(source.state_dict(dtype, torch.device("cpu")))
    return model


@torch.inference_mode()
def logits_of(model: BaseLLMModel, ids: list[int]) -> torch.Tensor:
    """fp32 logits after each token of ``ids``: (T, vocab)."""
    ctx = Context(page_size=1)
    ctx.attn_backend = DenseAttention()  # type: ignore[assignment]
    batch = Batch(reqs=[], phase="prefill")
    batch.padded_reqs = []
    batch.input_ids = torch.tensor(ids, dtype=torch.int32)
    batch.positions = torch.arange(len(ids), dtype=torch.int32)
    batch.attn_metadata = _AllRows(len(ids))  # type: ignore[assignment]
    with use_ctx(ctx), ctx.forward_batch(batch):
        return model.forward()


def greedy(
    model: BaseLLMModel,
    ids: list[int],
    steps: int,
    seen: Callable[[torch.Tensor], None] | None = None,
) -> list[int]:
    """``steps`` greedy tokens, each from a forward pass over everything before it."""
    out: list[int] = []
    for _ in range(steps):
        last = logits_of(model, ids + out)[-1]
        if seen is not None:
            seen(last)
        out.append(int(last.argmax()))
    return out
