"""Paged attention in plain torch: the reference for every kernel, and what a CPU runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import scaled_dot_product_attention

from ..core import Batch, get_global_ctx
from .base import BaseAttnBackend
from .paged import PagedMetadata

if TYPE_CHECKING:
    from ..models.config import ModelConfig


@dataclass
class TorchMetadata(PagedMetadata):
    """``slots``: (bs, max_seqlen_k) int64, each request's slots by position.

    Beyond a request's length its first slot stands in: it is read, multiplied by an attention
    weight of 0, and must be finite for that, which an unowned slot need not be.
    ``mask``: (bs, 1, 1, max_seqlen_k) bool for one new token each, else None. ``masks``: otherwise
    one per request, (extend_len, device_len) bool; None for a prompt without a history, whose mask
    is the plain causal one.
    """

    slots: torch.Tensor
    mask: torch.Tensor | None
    masks: list[torch.Tensor | None]
    seqlens: list[tuple[int, int]]  # (extend_len, device_len) per request, on the host


class TorchAttnBackend(BaseAttnBackend):
    """Gathers K and V of the batch by slot each step; keeps no second copy of the cache."""

    def __init__(self, config: ModelConfig) -> None:
        ctx = get_global_ctx()
        self.kvcache = ctx.kv_cache
        self.page_size = ctx.page_size
        self.page_table = ctx.page_table
        self.scale = config.head_dim**-0.5

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        self.store(k, v, layer_id, batch)
        metadata, given = batch.attn_metadata, q.dtype
        assert isinstance(metadata, TorchMetadata)
        q = q.to(self.kvcache.dtype)
        k_cache = self.kvcache.k_cache(layer_id).flatten(0, 1)  # (N'·P, H_kv, D)
        v_cache = self.kvcache.v_cache(layer_id).flatten(0, 1)
        if metadata.mask is not None:
            return self._decode(q, k_cache, v_cache, metadata.slots, metadata.mask).to(given)
        outputs = []
        rows = q.split([extend_len for extend_len, _ in metadata.seqlens])
        requests = zip(rows, metadata.slots, metadata.seqlens, metadata.masks, strict=True)
        for q_req, slots, lens, mask in requests:
            outputs.append(self._extend(q_req, k_cache, v_cache, slots[: lens[1]], mask))
        return torch.cat(outputs).to(given)  # (T, H_q, D)

    def prepare_metadata(self, batch: Batch) -> None:
        paged = PagedMetadata.of_batch(batch, self.page_table, self.page_size)
        batch.attn_metadata = self._gathering(batch, paged)

    def _gathering(self, batch: Batch, paged: PagedMetadata) -> TorchMetadata:
        offsets = torch.arange(self.page_size, device=self.page_table.device)
        starts = paged.page_table.long() * self.page_size
        slots = (starts[..., None] + offsets).flatten(1)[:, : paged.max_seqlen_k]
        positions = torch.arange(paged.max_seqlen_k, device=slots.device)
        known = positions < paged.cache_seqlens[:, None]  # (bs, max_seqlen_k)
        seqlens = [(req.extend_len, req.device_len) for req in batch.padded_reqs]
        decodes = paged.max_seqlen_q == 1
        return TorchMetadata(
            **vars(paged),
            slots=torch.where(known, slots, slots[:, :1]),
            mask=known[:, None, None, :] if decodes else None,
            masks=[] if decodes else [_causal_mask(*lens, slots.device) for lens in seqlens],
            seqlens=seqlens,
        )

    def init_capture_graph(self, max_seq_len: int, bs_list: list[int]) -> None:
        raise ValueError(
            "attention backend 'torch' can't be captured in CUDA graphs; take 'triton' for decode"
            " ('torch,triton'), or leave cuda_graph_bs empty."
        )

    def prepare_for_capture(self, batch: Batch) -> None:
        raise AssertionError("never captured")

    def prepare_for_replay(self, batch: Batch) -> None:
        raise AssertionError("never captured")

    def _decode(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slots: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """One new token for each of bs requests: (bs, H_q, D)."""
        k = _gather(k_cache, slots).transpose(1, 2)  # (bs, H_kv, max_seqlen_k, D)
        v = _gather(v_cache, slots).transpose(1, 2)
        out = scaled_dot_product_attention(
            q.unsqueeze(2), k, v, attn_mask=mask, scale=self.scale, enable_gqa=True
        )
        return out.squeeze(2)

    def _extend(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slots: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """All new tokens of one request, (n, H_q, D), over its whole context."""
        k = k_cache.index_select(0, slots).transpose(0, 1)  # (H_kv, device_len, D)
        v = v_cache.index_select(0, slots).transpose(0, 1)
        out = scaled_dot_product_attention(
            q.transpose(0, 1)[None],
            k[None],
            v[None],
            attn_mask=mask,
            is_causal=mask is None,
            scale=self.scale,
            enable_gqa=True,
        )
        return out[0].transpose(0, 1)  # (n, H_q, D)


def _gather(cache: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """``cache[slots]``, row by row: several times faster on a CPU than element by element."""
    return cache.index_select(0, slots.flatten()).unflatten(0, slots.shape)


def _causal_mask(new: int, total: int, device: torch.device) -> torch.Tensor | None:
    """What the last ``new`` of ``total`` tokens see; made once a step, for all layers."""
    if new == total:
        return None
    return torch.ones(new, total, dtype=torch.bool, device=device).tril(total - new)
