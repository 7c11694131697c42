"""Attention over a paged cache in plain torch: the twin of the kernels in ``triton_paged.py``.

One function for decode and extend, slow and plain, in any floating dtype (the kernels are checked
against it in float64); and the argument checks that both share.
"""

from __future__ import annotations

import torch

KERNEL_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
KERNEL_MAX_HEAD_DIM = 128
"""What the Triton kernels are written, compiled and tested for."""


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    *,
    scale: float,
) -> torch.Tensor:
    """Causal attention of the last tokens of each request over its whole context.

    Request i has ``cache_seqlens[i]`` tokens in the cache. Its queries are rows
    ``[cu_seqlens_q[i], cu_seqlens_q[i + 1])`` of ``q`` and belong to the last of those tokens.

    Args:
        q: (T, H_q, D), the last dimension contiguous.
        k_cache, v_cache: (N', P, H_kv, D) contiguous. H_kv divides H_q; consecutive query heads
            share a KV head.
        page_table: (bs, pages) int32 page ids; what lies beyond a request's pages is not read.
        cache_seqlens: (bs,) int32. cu_seqlens_q: (bs + 1,) int32.

    Returns:
        (T, H_q, D), a new tensor.

    Raises:
        ValueError: arguments that don't fit each other.
    """
    check_paged(q, k_cache, v_cache, page_table, cache_seqlens, cu_seqlens_q)
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    bounds = cu_seqlens_q.tolist()
    for i, total in enumerate(cache_seqlens.tolist()):
        new = slice(bounds[i], bounds[i + 1])
        k = _context(k_cache, page_table[i], total)  # (device_len, H_kv, D)
        v = _context(v_cache, page_table[i], total)
        out[new] = _attend(q[new], k, v, scale)
    return out


def _context(cache: torch.Tensor, pages: torch.Tensor, total: int) -> torch.Tensor:
    """The rows of a request's first ``total`` tokens, in order."""
    needed = -(-total // cache.shape[1])
    return cache[pages[:needed].long()].flatten(0, 1)[:total]


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    """(n, H_q, D) over (total, H_kv, D); the queries are the last n of the total tokens."""
    new, total, group = len(q), len(k), q.shape[1] // k.shape[1]
    k = k.repeat_interleave(group, dim=1)  # (total, H_q, D)
    v = v.repeat_interleave(group, dim=1)
    scores = torch.einsum("nhd,thd->hnt", q, k) * scale
    visible = torch.ones(new, total, dtype=torch.bool, device=q.device).tril(total - new)
    weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)  # (H_q, n, total)
    return torch.einsum("hnt,thd->nhd", weights, v)


def check_paged(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    cu_seqlens_q: torch.Tensor | None = None,
) -> None:
    """Raises ValueError unless the arguments of ``paged_attention`` fit each other.

    Without ``cu_seqlens_q`` each request has one query. Page ids and lengths are looked at on the
    CPU only: on a GPU that would wait for the device.
    """
    _check_shapes(q, k_cache, v_cache)
    bs = len(cache_seqlens)
    lengths = {"cache_seqlens": (cache_seqlens, bs)}
    if cu_seqlens_q is not None:
        lengths["cu_seqlens_q"] = (cu_seqlens_q, bs + 1)
    elif len(q) != bs:
        raise ValueError(f"q has {len(q)} rows for {bs} requests; one each is needed.")
    for name, (tensor, size) in lengths.items():
        if tensor.dtype != torch.int32 or tuple(tensor.shape) != (size,):
            raise ValueError(f"{name} is ({size},) int32, not {_of(tensor)}.")
    if page_table.dtype != torch.int32 or page_table.dim() != 2 or len(page_table) != bs:
        raise ValueError(f"page_table is ({bs}, pages) int32, not {_of(page_table)}.")
    if page_table.stride(1) != 1:
        raise ValueError(f"page_table has strides {page_table.stride()}; rows must be contiguous.")
    if q.is_cpu and bs > 0:
        _check_values(k_cache, page_table, cache_seqlens, cu_seqlens_q, len(q))


def check_claims(q: torch.Tensor) -> None:
    """Raises ValueError for a dtype or head_dim that the Triton kernels don't claim."""
    if q.dtype not in KERNEL_DTYPES:
        raise ValueError(f"q is {q.dtype}; the kernels take float16, bfloat16 and float32.")
    if q.shape[2] > KERNEL_MAX_HEAD_DIM:
        raise ValueError(f"head_dim {q.shape[2]}: the kernels take {KERNEL_MAX_HEAD_DIM} at most.")


def _check_shapes(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor) -> None:
    if k_cache.dim() != 4 or k_cache.shape != v_cache.shape:
        raise ValueError(
            f"caches are (pages, P, heads, dim) alike, not {tuple(k_cache.shape)}"
            f" and {tuple(v_cache.shape)}."
        )
    heads, dim = k_cache.shape[2:]
    if q.dim() != 3 or q.shape[2] != dim or q.shape[1] % heads != 0 or q.stride(2) != 1:
        raise ValueError(
            f"q is (T, a multiple of {heads}, {dim}) with its last dimension contiguous,"
            f" not {tuple(q.shape)} with strides {q.stride()}."
        )
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        if not cache.is_contiguous():
            raise ValueError(f"{name} has strides {cache.stride()}; it must be contiguous.")
        if cache.dtype != q.dtype or cache.device != q.device:
            raise ValueError(
                f"{name} is {cache.dtype} on {cache.device}; q is {q.dtype} on {q.device}."
            )


def _check_values(
    k_cache: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    cu_seqlens_q: torch.Tensor | None,
    num_rows: int,
) -> None:
    num_pages, page_size = k_cache.shape[:2]
    bs = len(cache_seqlens)
    bounds = list(range(bs + 1)) if cu_seqlens_q is None else cu_seqlens_q.tolist()
    if bounds[0] != 0 or bounds[-1] != num_rows:
        raise ValueError(f"cu_seqlens_q goes from {bounds[0]} to {bounds[-1]}; q has {num_rows}.")
    for i, total in enumerate(cache_seqlens.tolist()):
        new = bounds[i + 1] - bounds[i]
        if not 0 < new <= total <= page_table.shape[1] * page_size:
            raise ValueError(
                f"request {i} has {new} new of {total} tokens in {page_table.shape[1]} pages of"
                f" {page_size}: 0 < new <= tokens <= room must hold."
            )
        used = page_table[i, : -(-total // page_size)]
        low, high = (int(x) for x in used.aminmax())
        if low < 0 or high >= num_pages:
            bad = low if low < 0 else high
            raise ValueError(f"request {i}: page {bad} is outside the pool's [0, {num_pages}).")


def _of(tensor: torch.Tensor) -> str:
    return f"{tuple(tensor.shape)} {tensor.dtype}"
