"""Attention through flash-attn 2 (mini-sglang: attention/fa.py, there on sgl-kernel's FA3 and FA4).

flash-attn's paged calls take page sizes that are multiples of 256 only. With such pages K and V are
read where they lie; with others a step gathers them by slot into one ragged tensor first.

What has run with flash-attn itself, and what with a stand-in only: tests/gpu/RESULTS.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

from ..core import Batch
from ..utils import require
from .base import Place
from .paged import PagedAttnBackend, PagedMetadata

if TYPE_CHECKING:
    from ..models.config import ModelConfig

MIN_CAPABILITY = (8, 0)
DTYPES = (torch.float16, torch.bfloat16)
MAX_HEAD_DIM = 256
PAGED_MULTIPLE = 256


@dataclass
class FAMetadata(PagedMetadata):
    """``gathered``: where flash-attn can't page, the slots of all contexts, one after another.

    (sum of ``device_len``,) int64, else None.
    """

    gathered: torch.Tensor | None = None


class FlashAttentionBackend(PagedAttnBackend):
    """The paged calls of flash-attn 2 where P is a multiple of 256, else its ragged call."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        flash_attn = require("flash_attn", extra="cuda")
        self._varlen = flash_attn.flash_attn_varlen_func
        self._with_kvcache = flash_attn.flash_attn_with_kvcache
        self.is_paged = self.page_size % PAGED_MULTIPLE == 0

    @classmethod
    def why_not(cls, place: Place) -> str | None:
        if place.capability is None:
            return f"it needs an NVIDIA GPU, and the pool is on {place.device}"
        if place.capability < MIN_CAPABILITY:
            have = ".".join(map(str, place.capability))
            return f"it needs compute capability 8.0, and this GPU has {have}"
        if place.dtype not in DTYPES:
            return f"it takes float16 and bfloat16, not {place.dtype}"
        if place.head_dim > MAX_HEAD_DIM or place.head_dim % 8 != 0:
            return f"it takes a head_dim that 8 divides, at most 256, not {place.head_dim}"
        if find_spec("flash_attn") is None:
            return "the package flash-attn is not installed (pip install 'minisgl-lite[cuda]')"
        return None

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        self.store(k, v, layer_id, batch)
        metadata = batch.attn_metadata
        assert isinstance(metadata, PagedMetadata)
        k_cache, v_cache = self.kvcache.k_cache(layer_id), self.kvcache.v_cache(layer_id)
        if self.is_paged and metadata.max_seqlen_q == 1:
            return self._decode(q, k_cache, v_cache, metadata)
        if self.is_paged:
            return self._extend(q, k_cache, v_cache, metadata, metadata.page_table)
        assert isinstance(metadata, FAMetadata) and metadata.gathered is not None
        k_rows = k_cache.flatten(0, 1)[metadata.gathered]  # (sum of device_len, H_kv, D)
        v_rows = v_cache.flatten(0, 1)[metadata.gathered]
        return self._extend(q, k_rows, v_rows, metadata, None)

    def prepare_metadata(self, batch: Batch) -> None:
        paged = PagedMetadata.of_batch(batch, self.page_table, self.page_size)
        gathered = None if self.is_paged else self._gather_slots(batch, paged)
        batch.attn_metadata = FAMetadata(**vars(paged), gathered=gathered)

    def init_capture_graph(self, max_seq_len: int, bs_list: list[int]) -> None:
        if not self.is_paged:
            raise ValueError(
                f"attention backend 'fa' can't be captured in CUDA graphs with page_size"
                f" {self.page_size}, as its ragged call changes shape: take a multiple of"
                f" {PAGED_MULTIPLE}, or 'fa,triton', or leave cuda_graph_bs empty."
            )
        super().init_capture_graph(max_seq_len, bs_list)

    def _decode(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        metadata: PagedMetadata,
    ) -> torch.Tensor:
        out: torch.Tensor = self._with_kvcache(
            q.unsqueeze(1),  # (bs, 1, H_q, D)
            k_cache,
            v_cache,
            cache_seqlens=metadata.cache_seqlens,
            block_table=metadata.page_table,
            softmax_scale=self.scale,
            causal=True,
        )
        return out.squeeze(1)

    def _extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        metadata: PagedMetadata,
        block_table: torch.Tensor | None,
    ) -> torch.Tensor:
        """NOTE: flash-attn aligns its causal mask to the last query and key, as a history needs."""
        out: torch.Tensor = self._varlen(
            q,
            k,
            v,
            cu_seqlens_q=metadata.cu_seqlens_q,
            cu_seqlens_k=metadata.cu_seqlens_k,
            max_seqlen_q=metadata.max_seqlen_q,
            max_seqlen_k=metadata.max_seqlen_k,
            softmax_scale=self.scale,
            causal=True,
            block_table=block_table,
        )
        return out

    def _gather_slots(self, batch: Batch, paged: PagedMetadata) -> torch.Tensor:
        """Every slot of every context in order; lengths come from the host, so nothing waits."""
        device, total = self.page_table.device, sum(req.device_len for req in batch.padded_reqs)
        requests = torch.arange(batch.padded_size, device=device)
        owner = requests.repeat_interleave(paged.cache_seqlens, output_size=total)
        position = torch.arange(total, device=device) - paged.cu_seqlens_k[owner]
        pages = paged.page_table[owner, position // self.page_size].long()
        return pages * self.page_size + position % self.page_size
