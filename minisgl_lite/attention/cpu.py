"""Attention on a CPU with a C compiler: decode steps read the pages where they lie.

Prefill is left to torch, which is good at it.
"""

from __future__ import annotations

import torch

from ..core import Batch
from ..kernel.attend import decode_attention_cpu, why_not_compiled
from .base import Place
from .paged import CapturedPages, PagedMetadata
from .torch_ref import TorchAttnBackend


class CpuAttnBackend(CapturedPages, TorchAttnBackend):
    """As the torch backend, but a decode step copies no K and V and builds no mask."""

    @classmethod
    def why_not(cls, place: Place) -> str | None:
        if place.device.type != "cpu":
            return f"it needs a pool on the CPU, and this one is on {place.device}"
        return why_not_compiled(place.dtype, place.head_dim)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        metadata = batch.attn_metadata
        assert isinstance(metadata, PagedMetadata)
        if metadata.max_seqlen_q > 1:
            return super().forward(q, k, v, layer_id, batch)
        self.store(k, v, layer_id, batch)
        return decode_attention_cpu(
            q,
            self.kvcache.k_cache(layer_id),
            self.kvcache.v_cache(layer_id),
            metadata.page_table,
            metadata.cache_seqlens,
            scale=self.scale,
        )

    def prepare_metadata(self, batch: Batch) -> None:
        paged = PagedMetadata.of_batch(batch, self.page_table, self.page_size)
        batch.attn_metadata = paged if paged.max_seqlen_q == 1 else self._gathering(batch, paged)
