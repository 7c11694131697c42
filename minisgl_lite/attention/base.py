"""What attention is to the rest of the engine (mini-sglang: attention/base.py)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..core import Batch, get_global_ctx
from ..kernel.rows import cast_heads


@dataclass
class BaseAttnMetadata(ABC):
    """What a backend needs to know of a batch, as values: later steps change no part of it."""

    @abstractmethod
    def get_last_indices(self, bs: int) -> torch.Tensor:
        """Index of the last token of each of the first ``bs`` requests among the T: (bs,)."""


class Place(NamedTuple):
    """What decides whether a backend can run. ``capability`` is None on a CPU."""

    device: torch.device
    capability: tuple[int, int] | None
    dtype: torch.dtype
    page_size: int
    head_dim: int


class BaseAttnBackend(ABC):
    """Stores this step's K/V of a layer, then reads history and new K/V through the page ids."""

    @classmethod
    def why_not(cls, place: Place) -> str | None:
        """What keeps this backend from running at ``place``, in words; None if nothing does."""
        return None

    @abstractmethod
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        """Causal attention of every new token over its request's whole context.

        Args:
            q: (T, H_q, D); k, v: (T, H_kv, D), this step's tokens in batch order. On a CPU they may
                be wider than the pool's dtype.
        Returns:
            (T, H_q, D) in the dtype of ``q``. Changes the pool, at ``batch.out_loc`` of layer
            ``layer_id``.
        """

    @abstractmethod
    def prepare_metadata(self, batch: Batch) -> None:
        """Set ``batch.attn_metadata``. Called once a step, after the pages are allocated."""

    @abstractmethod
    def init_capture_graph(self, max_seq_len: int, bs_list: list[int]) -> None:
        """Make the buffers that captured graphs read, for decode batches of these sizes.

        Raises:
            ValueError: this backend can't be captured.
        """

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
        dtype = ctx.kv_cache.dtype
        k, v = cast_heads(k, dtype), cast_heads(v, dtype)
        ctx.kv_cache.store_kv(k, v, batch.out_loc, layer_id)
        if ctx.hooks.active:
            ctx.hooks.emit("on_store", layer_id, batch)
            ctx.hooks.emit("on_attend", layer_id, batch)


class HybridBackend(BaseAttnBackend):
    """One backend for prefill batches, another for decode batches and their captured graphs."""

    def __init__(self, prefill_backend: BaseAttnBackend, decode_backend: BaseAttnBackend) -> None:
        self.prefill_backend = prefill_backend
        self.decode_backend = decode_backend

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        return self._backend_of(batch).forward(q, k, v, layer_id, batch)

    def prepare_metadata(self, batch: Batch) -> None:
        self._backend_of(batch).prepare_metadata(batch)

    def init_capture_graph(self, max_seq_len: int, bs_list: list[int]) -> None:
        self.decode_backend.init_capture_graph(max_seq_len, bs_list)

    def prepare_for_capture(self, batch: Batch) -> None:
        self.decode_backend.prepare_for_capture(batch)

    def prepare_for_replay(self, batch: Batch) -> None:
        self.decode_backend.prepare_for_replay(batch)

    def _backend_of(self, batch: Batch) -> BaseAttnBackend:
        return self.prefill_backend if batch.is_prefill else self.decode_backend
