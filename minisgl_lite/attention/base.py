"""What attention is to the rest of the engine (mini-sglang: attention/base.py)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch

from ..core import Batch, get_global_ctx
from ..utils import div_ceil
from ..utils.tensors import to_device


@dataclass
class BaseAttnMetadata(ABC):
    """What a backend needs to know of a batch, as values: later steps change no part of it."""

    @abstractmethod
    def get_last_indices(self, bs: int) -> torch.Tensor:
        """Index of the last token of each of the first ``bs`` requests among the T: (bs,)."""


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


def make_paged_metadata(batch: Batch, page_table: torch.Tensor, page_size: int) -> dict[str, Any]:
    """The fields of ``PagedMetadata`` for ``batch.padded_reqs``; reads the table, keeps copies."""
    reqs, device = batch.padded_reqs, page_table.device
    cu_q, cu_k = [0], [0]
    for req in reqs:
        cu_q.append(cu_q[-1] + req.extend_len)
        cu_k.append(cu_k[-1] + req.device_len)
    max_seqlen_k = max(req.device_len for req in reqs)
    rows = to_device([req.table_idx for req in reqs], torch.int64, device)
    starts = page_table[rows, : div_ceil(max_seqlen_k, page_size) * page_size : page_size]
    return {
        "cu_seqlens_k": to_device(cu_k, torch.int32, device),
        "cu_seqlens_q": to_device(cu_q, torch.int32, device),
        "cache_seqlens": to_device([req.device_len for req in reqs], torch.int32, device),
        "max_seqlen_k": max_seqlen_k,
        "max_seqlen_q": max(req.extend_len for req in reqs),
        "page_table": starts // page_size,  # (bs, pages)
    }


class BaseAttnBackend(ABC):
    """Stores this step's K/V of a layer, then reads history and new K/V through the page ids."""

    @abstractmethod
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        """Causal attention of every new token over its request's whole context.

        Args:
            q: (T, H_q, D); k, v: (T, H_kv, D), this step's tokens in batch order.
        Returns:
            (T, H_q, D). Changes the pool, at ``batch.out_loc`` of layer ``layer_id``.
        """

    @abstractmethod
    def prepare_metadata(self, batch: Batch) -> None:
        """Set ``batch.attn_metadata``. Called once a step, after the pages are allocated."""

    @abstractmethod
    def init_capture_graph(self, max_seq_len: int, bs_list: list[int]) -> None:
        """Make the buffers that captured graphs read, for decode batches of these sizes."""

    @abstractmethod
    def prepare_for_capture(self, batch: Batch) -> None:
        """Set ``batch.attn_metadata`` to views of those buffers."""

    @abstractmethod
    def prepare_for_replay(self, batch: Batch) -> None:
        """Copy ``batch.attn_metadata`` into those buffers."""

    @staticmethod
    def store(k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch) -> None:
        """The write half of ``forward``, the same for every backend."""
        ctx = get_global_ctx()
        ctx.kv_cache.store_kv(k, v, batch.out_loc, layer_id)
        if ctx.hooks.active:
            ctx.hooks.emit("on_store", layer_id, batch)
            ctx.hooks.emit("on_attend", layer_id, batch)
