"""Attention of a decode step on a CPU, over the pages where they lie; its torch twin is
``paged.paged_attention``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from .compiled import launch, load_library

DTYPES = (torch.float32, torch.bfloat16)
_ALLOWED = [[dtype, dtype, torch.int32, torch.int32] for dtype in DTYPES]


@cache
def _compiled() -> Any:
    library = load_library("attend.c")
    return None if library is None else library.decode_attention


def why_not_compiled(dtype: torch.dtype, head_dim: int) -> str | None:
    """What keeps ``decode_attention_cpu`` from running, in words; None if nothing does.

    Asking may compile it, once.
    """
    if dtype not in DTYPES:
        return f"it takes float32 and bfloat16, not {dtype}"
    if head_dim % 16 != 0:
        return f"it takes a head_dim that 16 divides, not {head_dim}"
    return None if _compiled() is not None else "no C compiler that makes its kernel was found"


def decode_attention_cpu(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    *,
    scale: float,
) -> torch.Tensor:
    """One query per request over its whole context, computed in fp32.

    Each request's result is the same, to the bit, whatever other requests there are.

    Args:
        q: (bs, H_q, D); k_cache, v_cache: (N', P, H_kv, D) contiguous; one dtype, on the CPU.
        page_table: (bs, pages) int32 page ids, rows contiguous; cache_seqlens: (bs,) int32, 1 or
            more.
    Returns:
        (bs, H_q, D), a new tensor.
    Raises:
        ValueError: shapes that do not belong together, a page outside the pool, a length that its
            row has no pages for, another dtype, or a tensor that is not contiguous; nothing is
            read.
        MemoryError: no room for the scores.
    """
    num_pages, page_size, kv_heads, dim = k_cache.shape
    parts = (k_cache, v_cache, page_table, cache_seqlens)
    if not all([part.is_contiguous() for part in parts]):
        raise ValueError("caches, page table and lengths must be contiguous.")
    dtypes = [part.dtype for part in parts]
    if dtypes not in _ALLOWED:
        raise ValueError(
            f"dtypes of caches, page table and lengths are {dtypes}; allowed are float32 or"
            " bfloat16 caches, and int32."
        )
    bs, heads = q.shape[:2]
    if q.shape[2] != dim or heads % kv_heads != 0 or v_cache.shape != k_cache.shape:
        raise ValueError(
            f"q {tuple(q.shape)} does not fit K {tuple(k_cache.shape)}, V {tuple(v_cache.shape)}."
        )
    if page_table.shape[0] != bs or cache_seqlens.shape != (bs,):
        raise ValueError(
            f"page table {tuple(page_table.shape)} and lengths {tuple(cache_seqlens.shape)} are not"
            f" those of {bs} requests."
        )
    given = q.float().contiguous()  # (bs, H_q, D)
    out = torch.empty_like(given)

    def refuse(bad: int) -> Exception:
        if bad < 0:
            return MemoryError("no memory for the scores of a decode step.")
        return ValueError(
            f"request {bad - 1}: a page is outside the pool's [0, {num_pages}), or its length"
            f" {int(cache_seqlens[bad - 1])} outside [1, {page_table.shape[1] * page_size}]."
        )

    launch(
        _compiled(),
        k_cache.dtype == torch.bfloat16,
        given,
        k_cache,
        v_cache,
        page_table,
        cache_seqlens,
        out,
        bs,
        heads,
        kv_heads,
        dim,
        num_pages,
        page_size,
        page_table.shape[1],
        float(scale),
        torch.get_num_threads(),
        refuse=refuse,
    )
    return out.to(q.dtype)
