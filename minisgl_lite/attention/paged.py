"""What the backends with paged kernels share: their metadata, and its copy for captured graphs.

mini-sglang: attention/utils.py, and the parts that its backends repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import torch

from ..core import Batch, get_global_ctx
from ..utils import align_ceil, div_ceil
from .base import BaseAttnBackend, BaseAttnMetadata

if TYPE_CHECKING:
    from ..kvcache import BaseKVCachePool
    from ..models.config import ModelConfig


@dataclass
class PagedMetadata(BaseAttnMetadata):
    """The lengths and pages of a batch, as flash-attn's paged kernels take them; all int32.

    ``cu_seqlens_q``, ``cu_seqlens_k``: (bs + 1,) running sums of ``extend_len`` and ``device_len``.
    ``cache_seqlens``: (bs,) ``device_len``. ``page_table``: (bs, pages) page *ids*, from the slots
    of the global table; entries beyond a request's own pages have no meaning.
    """

    cu_seqlens_k: torch.Tensor
    cu_seqlens_q: torch.Tensor
    cache_seqlens: torch.Tensor
    max_seqlen_k: int
    max_seqlen_q: int
    page_table: torch.Tensor

    def get_last_indices(self, bs: int) -> torch.Tensor:
        return self.cu_seqlens_q[1 : bs + 1] - 1

    @classmethod
    def of_batch(cls, batch: Batch, page_table: torch.Tensor, page_size: int) -> PagedMetadata:
        """For ``batch.padded_reqs``; one copy to the device, and values, not views, of the table.

        ``page_table``: the global one, (rows, W) raw slots.
        """
        reqs = batch.padded_reqs
        seqlens_q = [req.extend_len for req in reqs]
        seqlens_k = [req.device_len for req in reqs]
        rows, cache_seqlens, cu_seqlens_q, cu_seqlens_k = _to_device_together(
            [
                [req.table_idx for req in reqs],
                seqlens_k,
                list(accumulate(seqlens_q, initial=0)),
                list(accumulate(seqlens_k, initial=0)),
            ],
            page_table.device,
        )
        max_seqlen_k = max(seqlens_k)
        width = div_ceil(max_seqlen_k, page_size) * page_size
        starts = page_table[:, :width:page_size].index_select(0, rows)  # (bs, pages)
        return PagedMetadata(
            cu_seqlens_k=cu_seqlens_k,
            cu_seqlens_q=cu_seqlens_q,
            cache_seqlens=cache_seqlens,
            max_seqlen_k=max_seqlen_k,
            max_seqlen_q=max(seqlens_q),
            page_table=starts // page_size,
        )


def _to_device_together(lists: list[list[int]], device: torch.device) -> list[torch.Tensor]:
    """Each list as int32, all in one copy: pinned and non-blocking on CUDA.

    Each begins at a multiple of 16 bytes, as a tensor of its own would: kernels are compiled for
    that.
    """
    width = align_ceil(max(len(values) for values in lists), 4)
    padded = [values + [0] * (width - len(values)) for values in lists]
    on_cuda = device.type == "cuda"
    together = torch.tensor(padded, dtype=torch.int32, pin_memory=on_cuda)
    together = together.to(device, non_blocking=on_cuda)
    return [row[: len(values)] for row, values in zip(together, lists, strict=True)]


@dataclass
class CaptureData:
    """What captured graphs read instead of a step's own metadata: for ``max_bs`` requests.

    Every page is page 0 and every length is 1 until the first replay.
    """

    seq_lens: torch.Tensor
    cu_seqlens_k: torch.Tensor
    cu_seqlens_q: torch.Tensor
    page_table: torch.Tensor

    @classmethod
    def create(cls, max_bs: int, max_pages: int, device: torch.device) -> CaptureData:
        counted = torch.arange(max_bs + 1, dtype=torch.int32, device=device)
        return cls(
            seq_lens=torch.ones(max_bs, dtype=torch.int32, device=device),
            cu_seqlens_k=counted.clone(),
            cu_seqlens_q=counted.clone(),
            page_table=torch.zeros((max_bs, max_pages), dtype=torch.int32, device=device),
        )


class CapturedPages(BaseAttnBackend):
    """A backend whose decode step takes page ids, so that it can be captured in graphs."""

    kvcache: BaseKVCachePool
    page_size: int
    capture: CaptureData | None = None
    capture_bs: Sequence[int] = ()

    def init_capture_graph(self, max_seq_len: int, bs_list: list[int]) -> None:
        assert self.capture is None, "the capture buffers exist already."
        pages = div_ceil(max_seq_len, self.page_size)  # NOTE: the last may be partly used
        self.capture = CaptureData.create(max(bs_list), pages, self.kvcache.device)
        self.capture_bs = sorted(bs_list)

    def prepare_for_capture(self, batch: Batch) -> None:
        bs, capture = batch.padded_size, self.capture
        assert capture is not None and bs in self.capture_bs
        batch.attn_metadata = PagedMetadata(
            cu_seqlens_k=capture.cu_seqlens_k[: bs + 1],
            cu_seqlens_q=capture.cu_seqlens_q[: bs + 1],
            cache_seqlens=capture.seq_lens[:bs],
            max_seqlen_k=capture.page_table.shape[1] * self.page_size,
            max_seqlen_q=1,
            page_table=capture.page_table[:bs],
        )

    def prepare_for_replay(self, batch: Batch) -> None:
        bs, capture, metadata = batch.padded_size, self.capture, batch.attn_metadata
        assert isinstance(metadata, PagedMetadata)
        assert capture is not None and bs in self.capture_bs
        # cu_seqlens_q is [0, 1, …, bs] in every decode batch.
        capture.cu_seqlens_k[: bs + 1].copy_(metadata.cu_seqlens_k)
        capture.seq_lens[:bs].copy_(metadata.cache_seqlens)
        capture.page_table[:bs, : metadata.page_table.shape[1]].copy_(metadata.page_table)


class PagedAttnBackend(CapturedPages):
    """A backend whose kernels take page ids in every phase."""

    def __init__(self, config: ModelConfig) -> None:
        ctx = get_global_ctx()
        self.config = config
        self.kvcache = ctx.kv_cache
        self.page_size = ctx.page_size
        self.page_table = ctx.page_table
        self.scale = config.head_dim**-0.5

    def prepare_metadata(self, batch: Batch) -> None:
        batch.attn_metadata = PagedMetadata.of_batch(batch, self.page_table, self.page_size)
