"""Scatter K and V rows into the pool by slot (mini-sglang: kernel/store.py)."""

from __future__ import annotations

import torch

from .availability import triton_is_installed
from .compiled import launch
from .rows import compiled_rows


def store_cache(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> None:
    """Write ``k[t]`` and ``v[t]`` to row ``indices[t]`` of the caches.

    Args:
        k_cache, v_cache: (slots, H_kv, D), changed at the rows in ``indices`` only; each row is
            contiguous.
        indices: (T,) int32 or int64; each in [0, slots), which is checked where it costs no wait.
        k, v: (T, H_kv, D) or (T, H_kv·D), same dtype and device as the caches; any strides.

    Raises:
        ValueError: a shape, stride, dtype, device or slot does not fit; nothing is written.
    """
    _check(k_cache, v_cache, indices, k, v)
    heads_and_dim = k_cache.shape[1:]
    k = k if k.dim() == 3 else k.unflatten(1, heads_and_dim)  # (T, H_kv, D), a view
    v = v if v.dim() == 3 else v.unflatten(1, heads_and_dim)
    if k_cache.is_cuda and triton_is_installed():
        from .triton_store import scatter_rows

        scatter_rows(k_cache, v_cache, indices, k, v)
    elif _is_for_compiled(k_cache, v_cache):
        _scatter_rows_cpu(k_cache, v_cache, indices, k, v)
    else:
        _check_slots(indices, len(k_cache))
        scatter_rows_torch(k_cache, v_cache, indices, k, v)


def _is_for_compiled(*caches: torch.Tensor) -> bool:
    whole = all(cache.is_cpu and cache.is_contiguous() for cache in caches)
    return whole and compiled_rows() is not None


def _scatter_rows_cpu(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> None:
    """The same in compiled code, which looks at the slots before it writes."""
    size, heads, dim = k_cache.shape
    row = (dim, 1)
    k, v = (t if t.stride()[1:] == row else t.contiguous() for t in (k, v))
    bytes_each = k_cache.element_size()
    indices = indices.contiguous()
    launch(
        compiled_rows().scatter_rows,
        k_cache,
        v_cache,
        indices,
        indices.dtype == torch.int64,
        k,
        v,
        len(indices),
        heads * dim * bytes_each,
        k.stride(0) * bytes_each,
        v.stride(0) * bytes_each,
        size,
        refuse=lambda row: _outside(int(indices[row - 1]), size),
    )


def scatter_rows_torch(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> None:
    """The twin of ``triton_store.scatter_rows``: the same in two torch calls."""
    rows = indices.long()
    k_cache.index_copy_(0, rows, k)
    v_cache.index_copy_(0, rows, v)


def _check(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> None:
    _check_caches(k_cache, v_cache)
    if indices.dim() != 1 or indices.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"indices are (T,) int32 or int64, not {tuple(indices.shape)} {indices.dtype}."
        )
    if indices.device != k_cache.device:
        raise ValueError(f"indices lie on {indices.device}; the cache is on {k_cache.device}.")
    _, heads, dim = k_cache.shape
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


def _check_slots(indices: torch.Tensor, slots: int) -> None:
    """NOTE: on a GPU nobody looks: it would cost a wait for the device."""
    if indices.is_cpu and len(indices) > 0:
        low, high = (int(x) for x in indices.aminmax())
        if low < 0 or high >= slots:
            raise _outside(low if low < 0 else high, slots)


def _outside(slot: int, slots: int) -> ValueError:
    return ValueError(f"slot {slot} is outside the pool's [0, {slots}).")


def _check_caches(k_cache: torch.Tensor, v_cache: torch.Tensor) -> None:
    if k_cache.shape != v_cache.shape or k_cache.dim() != 3:
        raise ValueError(
            f"caches are (slots, heads, dim) alike, not {tuple(k_cache.shape)}"
            f" and {tuple(v_cache.shape)}."
        )
    if k_cache.dtype != v_cache.dtype or k_cache.device != v_cache.device:
        raise ValueError(
            f"caches are alike, not {k_cache.dtype} on {k_cache.device}"
            f" and {v_cache.dtype} on {v_cache.device}."
        )
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        if cache.stride()[1:] != (cache.shape[2], 1):
            raise ValueError(
                f"{name} has strides {cache.stride()}; a row of {tuple(cache.shape[1:])} must be"
                " contiguous."
            )
