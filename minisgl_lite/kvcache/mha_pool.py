"""The pool of multi-head and grouped-query attention (mini-sglang: kvcache/mha_pool.py)."""

from __future__ import annotations

import torch

from ..distributed import get_tp_info
from ..utils import div_even
from .base import BaseKVCachePool


class MHAKVCache(BaseKVCachePool):
    """One tensor for everything::

        _kv_buffer  (2, L, N', P, H_kv, D)
                     |  |  |   |  |     +-- component of the head's vector
                     |  |  |   |  +-------- KV head of this rank
                     |  |  |   +----------- token within its page
                     |  |  +--------------- page
                     |  +------------------ layer
                     +--------------------- 0 is K, 1 is V

    ``num_kv_heads`` counts the whole model; this rank keeps its share. The pool of an engine has
    one page more than its scheduler manages: the dummy page.
    """

    def __init__(
        self,
        num_kv_heads: int,
        num_layers: int,
        head_dim: int,
        num_pages: int,
        page_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        sizes = {
            "num_kv_heads": num_kv_heads,
            "num_layers": num_layers,
            "head_dim": head_dim,
            "num_pages": num_pages,
            "page_size": page_size,
        }
        for name, value in sizes.items():
            if value < 1:
                raise ValueError(f"{name} {value} is not allowed: 1 or more.")
        local_kv_heads = div_even(num_kv_heads, get_tp_info().size, allow_replicate=True)
        self._kv_buffer = torch.empty(
            (2, num_layers, num_pages, page_size, local_kv_heads, head_dim),
            dtype=dtype,
            device=device,
        )
        self._num_layers = num_layers
        self._k_buffer = self._kv_buffer[0]  # (L, N', P, H_kv, D)
        self._v_buffer = self._kv_buffer[1]
        self._device = self._kv_buffer.device
        self._storage_shape = (num_pages * page_size, local_kv_heads, head_dim)

    def k_cache(self, index: int) -> torch.Tensor:
        return self._k_buffer[index]

    def v_cache(self, index: int) -> torch.Tensor:
        return self._v_buffer[index]

    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        from ..kernel import store_cache

        if not 0 <= layer_id < self._num_layers:
            raise ValueError(
                f"layer_id {layer_id} is not in this pool: 0 to {self._num_layers - 1}."
            )
        store_cache(
            k_cache=self._k_buffer[layer_id].view(self._storage_shape),  # (N'·P, H_kv, D)
            v_cache=self._v_buffer[layer_id].view(self._storage_shape),
            indices=out_loc,
            k=k,
            v=v,
        )

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def dtype(self) -> torch.dtype:
        return self._kv_buffer.dtype

    @property
    def num_layers(self) -> int:
        return self._num_layers
