"""Attention of a decode step on a CPU, over the pages where they lie; its torch twin is
``paged.paged_attention``.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch

from .compiled import load_library

DTYPES = (torch.float32, torch.bfloat16)


@cache
def _compiled() -> Any:
    library = load_library("attend.c")
    if library is None:
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_long
    library.decode_attention.argtypes = [ctypes.c_int, *[pointer] * 6, *[number] * 7, ctypes.c_int]
    library.decode_attention.restype = number
    return library.decode_attention


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
        ValueError: a page outside the pool, or caches that are not contiguous; nothing is read.
        MemoryError: no room for the scores.
    """
    num_pages, page_size, kv_heads, dim = k_cache.shape
    if not (k_cache.is_contiguous() and v_cache.is_contiguous() and page_table.is_contiguous()):
        raise ValueError("caches and page table must be contiguous.")
    scaled = q.float() * scale  # (bs, H_q, D), contiguous
    out = torch.empty_like(scaled, memory_format=torch.contiguous_format)
    scaled = scaled.contiguous()
    bs, heads = q.shape[:2]
    bad: int = _compiled()(
        k_cache.dtype == torch.bfloat16,
        scaled.data_ptr(),
        k_cache.data_ptr(),
        v_cache.data_ptr(),
        page_table.data_ptr(),
        cache_seqlens.data_ptr(),
        out.data_ptr(),
        bs,
        heads,
        kv_heads,
        dim,
        num_pages,
        page_size,
        page_table.shape[1],
        torch.get_num_threads(),
    )
    if bad > 0:
        raise ValueError(f"request {bad - 1}: a page is outside the pool's [0, {num_pages}).")
    if bad < 0:
        raise MemoryError("no memory for the scores of a decode step.")
    return out.to(q.dtype)
