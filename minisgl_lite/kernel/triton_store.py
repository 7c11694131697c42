"""``store_cache`` on CUDA: K and V of a block of tokens in one program, one launch for both.

The twin in plain torch and the argument checks are in ``store.py``.
"""

# A kernel's parameters have Triton's types: what is annotated is a constant of the compilation.
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .launch import Launch

MAX_COLUMNS = 1024
"""Columns of one program; longer rows are shared among several."""
TILE = 4096
"""Elements of K (and as many of V) that one program moves: several loads in flight per thread."""


@triton.jit(do_not_specialize=["num_tokens"])
def store_kernel(
    k_cache,
    v_cache,  # (slots, ROW), rows contiguous
    indices,  # (T,) int32 or int64
    k,
    v,  # (T, H_kv, D), any strides
    num_tokens,
    k_cache_stride,
    v_cache_stride,
    k_stride_t,
    k_stride_h,
    k_stride_d,
    v_stride_t,
    v_stride_h,
    v_stride_d,
    HEAD_DIM: tl.constexpr,
    ROW: tl.constexpr,  # H_kv·D
    BLOCK_T: tl.constexpr,
    BLOCK_ROW: tl.constexpr,
):
    tokens = tl.program_id(0).to(tl.int64) * BLOCK_T + tl.arange(0, BLOCK_T)
    columns = tl.program_id(1) * BLOCK_ROW + tl.arange(0, BLOCK_ROW)
    inside = (tokens < num_tokens)[:, None] & (columns < ROW)[None, :]  # (BLOCK_T, BLOCK_ROW)
    head, dim = columns // HEAD_DIM, columns % HEAD_DIM

    k_from = tokens[:, None] * k_stride_t + (head * k_stride_h + dim * k_stride_d)[None, :]
    v_from = tokens[:, None] * v_stride_t + (head * v_stride_h + dim * v_stride_d)[None, :]
    k_tile = tl.load(k + k_from, mask=inside)
    v_tile = tl.load(v + v_from, mask=inside)

    # int64: a layer of a large pool has more than 2³¹ elements.
    slots = tl.load(indices + tokens, mask=tokens < num_tokens, other=0).to(tl.int64)
    tl.store(k_cache + slots[:, None] * k_cache_stride + columns[None, :], k_tile, mask=inside)
    tl.store(v_cache + slots[:, None] * v_cache_stride + columns[None, :], v_tile, mask=inside)


def scatter_rows(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> None:
    """Write ``k[t]`` and ``v[t]`` to row ``indices[t]``; k, v: (T, H_kv, D). Checks nothing."""
    if len(k) > 0:
        store_launch(k_cache, v_cache, indices, k, v).run()


def store_launch(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> Launch:
    num_tokens, heads, dim = k.shape
    block_row = min(triton.next_power_of_2(heads * dim), MAX_COLUMNS)
    block_t = min(TILE // block_row, 64)
    return Launch(
        store_kernel,
        (triton.cdiv(num_tokens, block_t), triton.cdiv(heads * dim, block_row)),
        (
            k_cache,
            v_cache,
            indices,
            k,
            v,
            num_tokens,
            k_cache.stride(0),
            v_cache.stride(0),
            *k.stride(),
            *v.stride(),
        ),
        {"HEAD_DIM": dim, "ROW": heads * dim, "BLOCK_T": block_t, "BLOCK_ROW": block_row},
    )
