"""Attention through this package's own paged kernels: any page size, any NVIDIA GPU from 7.5 up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..core import Batch
from ..kernel.availability import triton_is_installed, triton_is_interpreted
from ..kernel.paged import KERNEL_DTYPES, KERNEL_MAX_HEAD_DIM
from .base import Place
from .paged import PagedAttnBackend, PagedMetadata

if TYPE_CHECKING:
    from ..models.config import ModelConfig

MIN_CAPABILITY = (7, 5)


class TritonAttnBackend(PagedAttnBackend):
    """Splits each context in decode batches; extends by blocks of rows in all others.

    NOTE: nothing on the host depends on a length that only the device knows, and the number of
    splits depends on the batch size alone, so the decode step can be captured.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        from ..kernel import triton_paged

        device = self.kvcache.device
        self._kernels = triton_paged
        self._num_kv_heads = self.kvcache.k_cache(0).shape[2]
        self._processors = 1  # of the interpreter
        capability = None
        if device.type == "cuda":
            capability = torch.cuda.get_device_capability(device)
            self._processors = torch.cuda.get_device_properties(device).multi_processor_count
        self._blocks = triton_paged.choose_blocks(self.kvcache.dtype, capability)

    @classmethod
    def why_not(cls, place: Place) -> str | None:
        if not triton_is_installed():
            return "the package triton is not installed"
        if place.device.type != "cuda" and not triton_is_interpreted():
            return f"it needs an NVIDIA GPU, and the pool is on {place.device}"
        if place.capability is not None and place.capability < MIN_CAPABILITY:
            return f"it needs compute capability 7.5, and this GPU has {_dotted(place.capability)}"
        if place.dtype not in KERNEL_DTYPES:
            return f"it takes float16, bfloat16 and float32, not {place.dtype}"
        if place.head_dim > KERNEL_MAX_HEAD_DIM:
            return f"it takes a head_dim of at most {KERNEL_MAX_HEAD_DIM}, not {place.head_dim}"
        return None

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        self.store(k, v, layer_id, batch)
        metadata = batch.attn_metadata
        assert isinstance(metadata, PagedMetadata)
        k_cache, v_cache = self.kvcache.k_cache(layer_id), self.kvcache.v_cache(layer_id)
        if metadata.max_seqlen_q == 1:
            return self._kernels.decode_attention(
                q,
                k_cache,
                v_cache,
                metadata.page_table,
                metadata.cache_seqlens,
                scale=self.scale,
                num_splits=self._num_splits(len(q)),
                blocks=self._blocks.decode,
            )
        return self._kernels.extend_attention(
            q,
            k_cache,
            v_cache,
            metadata.page_table,
            metadata.cache_seqlens,
            metadata.cu_seqlens_q,
            scale=self.scale,
            max_seqlen_q=metadata.max_seqlen_q,
            blocks=self._blocks.extend,
        )

    def _num_splits(self, bs: int) -> int:
        return self._kernels.choose_num_splits(
            bs, self._num_kv_heads, self.page_table.shape[1], self._processors
        )


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))
