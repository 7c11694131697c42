"""Launches the paged attention kernels: their block sizes, their splits, their arguments.

The kernels stand in ``triton_attend.py``; the twin in plain torch and the checks in ``paged.py``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton

from .launch import Launch
from .paged import check_claims, check_paged
from .triton_attend import combine_kernel, decode_kernel, extend_kernel

LOG2_E = math.log2(math.e)
MAX_SPLITS = 64
MIN_SPLIT = 128
"""Tokens of context below which a split is not worth its start."""


class Blocks(NamedTuple):
    """The shape of one program: query rows, cache positions per round; warps, pipeline stages.

    A round's page ids are loaded before its K and V, so every second stage buys one round of K and
    V in flight: 5 stages keep two. ``widen``: multiply 16-bit numbers as fp32.
    """

    m: int
    n: int
    warps: int
    stages: int
    widen: bool = False


class Choices(NamedTuple):
    decode: Blocks
    extend: Blocks


TENSOR_CORES = Choices(Blocks(16, 64, 4, 5), Blocks(128, 64, 8, 3))
PLAIN_CORES = Choices(Blocks(16, 16, 4, 5), Blocks(32, 16, 8, 3))
BEFORE_AMPERE = Choices(Blocks(16, 32, 4, 1, True), Blocks(32, 32, 8, 1, True))
INTERPRETED = Choices(Blocks(16, 16, 4, 1, True), Blocks(32, 16, 4, 1, True))


def choose_blocks(dtype: torch.dtype, capability: tuple[int, int] | None) -> Choices:
    """What fits every head_dim up to 128 without spills; capability None is the interpreter.

    fp32 is fp32's own product, not tf32, and so takes no tensor core. Before 8.0 there are no
    asynchronous copies to pipeline, no bf16, and no tensor-core path in Triton; the interpreter has
    no bf16 product either.
    """
    if capability is None:
        return INTERPRETED
    if capability < (8, 0):
        return BEFORE_AMPERE
    return PLAIN_CORES if dtype == torch.float32 else TENSOR_CORES


def choose_num_splits(bs: int, num_kv_heads: int, max_seq_len: int, processors: int) -> int:
    """Splits of each context: enough programs for every multiprocessor, several times over.

    It asks only for what the host knows for good, never for lengths: a captured graph keeps its
    answer, and a step run eagerly gets the same. ``max_seq_len``: what a row has room for.
    """
    wanted = triton.cdiv(16 * processors, bs * num_kv_heads)
    longest = triton.cdiv(max_seq_len, MIN_SPLIT)
    return triton.next_power_of_2(min(wanted, longest, MAX_SPLITS))


def decode_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    *,
    scale: float,
    num_splits: int,
    blocks: Blocks | None = None,
) -> torch.Tensor:
    """``paged.paged_attention`` for one query per request: q (bs, H_q, D) -> (bs, H_q, D).

    Shapes and grid depend on shapes and ``num_splits`` alone: it can be captured in a CUDA graph.
    """
    check_paged(q, k_cache, v_cache, page_table, cache_seqlens)
    check_claims(q)
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    blocks = blocks or choose_blocks(q.dtype, _capability(q)).decode
    for launch in decode_launches(
        out, q, k_cache, v_cache, page_table, cache_seqlens, scale, num_splits, blocks
    ):
        launch.run()
    return out


def extend_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    *,
    scale: float,
    max_seqlen_q: int,
    blocks: Blocks | None = None,
) -> torch.Tensor:
    """``paged.paged_attention`` for any number of queries per request, at most ``max_seqlen_q``."""
    check_paged(q, k_cache, v_cache, page_table, cache_seqlens, cu_seqlens_q)
    check_claims(q)
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    blocks = blocks or choose_blocks(q.dtype, _capability(q)).extend
    extend_launch(
        out,
        q,
        k_cache,
        v_cache,
        page_table,
        cache_seqlens,
        cu_seqlens_q,
        scale,
        max_seqlen_q,
        blocks,
    ).run()
    return out


def decode_launches(
    out: torch.Tensor,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    scale: float,
    num_splits: int,
    blocks: Blocks,
) -> tuple[Launch, Launch]:
    """The splits of every request into scratch, then their sum into ``out``."""
    bs, num_heads, dim = q.shape
    page_size, num_kv_heads = k_cache.shape[1:3]
    part_out = q.new_empty((bs, num_heads, num_splits, dim), dtype=torch.float32)
    part_lse = q.new_empty((bs, num_heads, num_splits), dtype=torch.float32)
    group = num_heads // num_kv_heads
    shared = {
        "HEAD_DIM": dim,
        "BLOCK_D": _block_d(dim),
        "BLOCK_N": blocks.n,
        "MIN_SPLIT": MIN_SPLIT,
    }
    return (
        Launch(
            decode_kernel,
            (num_kv_heads, num_splits, bs),
            (
                part_out,
                part_lse,
                q,
                k_cache,
                v_cache,
                page_table,
                cache_seqlens,
                num_splits,
                page_table.stride(0),
                q.stride(0),
                q.stride(1),
                num_kv_heads * dim,
                scale * LOG2_E,
            ),
            {
                "GROUP": group,
                "BLOCK_M": max(blocks.m, triton.next_power_of_2(group)),
                "PAGE_SIZE": page_size,
                "WIDEN": blocks.widen,
                **shared,
            },
            blocks.warps,
            blocks.stages,
        ),
        Launch(
            combine_kernel,
            (num_heads, bs),
            (out, part_out, part_lse, cache_seqlens, num_splits),
            {"BLOCK_SPLITS": triton.next_power_of_2(num_splits), **shared},
        ),
    )


def extend_launch(
    out: torch.Tensor,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    scale: float,
    max_seqlen_q: int,
    blocks: Blocks,
) -> Launch:
    num_heads, dim = q.shape[1:]
    page_size, num_kv_heads = k_cache.shape[1:3]
    group = num_heads // num_kv_heads
    return Launch(
        extend_kernel,
        (triton.cdiv(max_seqlen_q * group, blocks.m), num_kv_heads, len(cache_seqlens)),
        (
            out,
            q,
            k_cache,
            v_cache,
            page_table,
            cache_seqlens,
            cu_seqlens_q,
            page_table.stride(0),
            q.stride(0),
            q.stride(1),
            num_kv_heads * dim,
            scale * LOG2_E,
        ),
        {
            "GROUP": group,
            "BLOCK_M": blocks.m,
            "PAGE_SIZE": page_size,
            "HEAD_DIM": dim,
            "BLOCK_D": _block_d(dim),
            "BLOCK_N": blocks.n,
            "WIDEN": blocks.widen,
        },
        blocks.warps,
        blocks.stages,
    )


def _block_d(dim: int) -> int:
    """Tensor cores and ``tl.dot`` want a power of two, 16 at least; the rest is masked."""
    return max(16, triton.next_power_of_2(dim))


def _capability(q: torch.Tensor) -> tuple[int, int] | None:
    return torch.cuda.get_device_capability(q.device) if q.is_cuda else None
