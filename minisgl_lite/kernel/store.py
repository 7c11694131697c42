"""Scatter K and V rows into the pool by slot (mini-sglang: kernel/store.py)."""

from __future__ import annotations

import torch


def store_cache(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> None:
    """Write ``k[t]`` and ``v[t]`` to row ``indices[t]`` of the caches.

    Args:
        k_cache, v_cache: (slots, H_kv, D), changed at the rows in ``indices`` only.
        indices: (T,) int32 or int64; each in [0, slots), which is checked where it costs no wait.
        k, v: (T, H_kv, D) or (T, H_kv·D), same dtype and device as the caches; any strides.

    Raises:
        ValueError: a shape, dtype, device or slot does not fit; nothing is written.
    """
    _check(k_cache, v_cache, indices, k, v)
    rows = indices.long()
    k_cache.index_copy_(0, rows, k.reshape(-1, *k_cache.shape[1:]))
    v_cache.index_copy_(0, rows, v.reshape(-1, *v_cache.shape[1:]))


def _check(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> None:
    if k_cache.shape != v_cache.shape or k_cache.dim() != 3:
        raise ValueError(
            f"caches are (slots, heads, dim) alike, not {tuple(k_cache.shape)}"
            f" and {tuple(v_cache.shape)}."
        )
    if indices.dim() != 1 or indices.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"indices are (T,) int32 or int64, not {tuple(indices.shape)} {indices.dtype}."
        )
    slots, heads, dim = k_cache.shape
    fitting = ((len(indices), heads, dim), (len(indices), heads * dim))
    for name, rows in (("k", k), ("v", v)):
        if tuple(rows.shape) not in fitting:
            raise ValueError(
                f"{name} has shape {tuple(rows.shape)}; {fitting[0]} or {fitting[1]} is needed."
            )
        if rows.dtype != k_cache.dtype or rows.device != k_cache.device:
            raise ValueError(
                f"{name} is {rows.dtype} on {rows.device};"
                f" the cache is {k_cache.dtype} on {k_cache.device}."
            )
    if indices.is_cpu and len(indices) > 0:
        low, high = (int(x) for x in indices.aminmax())
        if low < 0 or high >= slots:
            raise ValueError(f"slot {low if low < 0 else high} is outside the pool's [0, {slots}).")
