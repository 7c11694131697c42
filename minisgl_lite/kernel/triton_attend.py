"""Attention over a paged cache in Triton: decode, split over the context, and extend.

Both kernels share one loop, ``attend``. A program owns one KV head of one request and all query
heads of its group, so that K and V are loaded once for the group::

    rows of a program  =  (token, head of the group), flattened: row // GROUP, row % GROUP
    decode             =  one token;  the context is split, ``combine_kernel`` joins the parts
    extend             =  BLOCK_M rows of the new tokens;  the context up to the last of them

Positions become addresses at the last moment: page id = ``page_table[request, position // P]``,
slot = page id · P + position % P. Any P will do; a row of D elements is contiguous in any case.

How they are launched stands in ``triton_paged.py``; the twin in plain torch in ``paged.py``.
"""

# A kernel's parameters have Triton's types: what is annotated is a constant of the compilation.
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def attend(
    acc,
    row_max,
    row_sum,  # (M, D), (M,), (M,) fp32: the running softmax of each row
    q,  # (M, D)
    limits,  # (M,): the last position that each row may see
    start,
    end,
    k_head,
    v_head,  # the caches, at this KV head
    pages,  # this request's row of the page table
    slot_stride,
    scale_log2,
    PAGE_SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr,
    WIDEN: tl.constexpr,
):
    """Add positions [start, end) to the running softmax, BLOCK_N at a time.

    Without MASKED, end - start is a multiple of BLOCK_N and every row sees all of it.
    """
    dims = tl.arange(0, BLOCK_D)
    for block in range(start, end, BLOCK_N):
        positions = block + tl.arange(0, BLOCK_N)
        if MASKED:
            known = positions < end
            page_ids = tl.load(pages + positions // PAGE_SIZE, mask=known, other=0)
        else:
            page_ids = tl.load(pages + positions // PAGE_SIZE)
        slots = page_ids.to(tl.int64) * PAGE_SIZE + positions % PAGE_SIZE
        offsets = slots[:, None] * slot_stride + dims[None, :]  # (BLOCK_N, BLOCK_D)

        # What is masked counts as 0: an unowned slot may hold NaN, and 0 · NaN is not 0.
        if HEAD_DIM != BLOCK_D:
            inside = (dims < HEAD_DIM)[None, :]
            if MASKED:
                inside = inside & known[:, None]
            k = tl.load(k_head + offsets, mask=inside, other=0.0)
            v = tl.load(v_head + offsets, mask=inside, other=0.0)
        elif MASKED:
            k = tl.load(k_head + offsets, mask=known[:, None], other=0.0)
            v = tl.load(v_head + offsets, mask=known[:, None], other=0.0)
        else:
            k = tl.load(k_head + offsets)
            v = tl.load(v_head + offsets)

        if WIDEN:
            k, v = k.to(tl.float32), v.to(tl.float32)
        # "ieee": fp32 products are fp32's own; tensor cores would round their factors to tf32.
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale_log2  # (M, BLOCK_N)
        if MASKED:
            scores = tl.where(positions[None, :] <= limits[:, None], scores, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        weights = tl.exp2(scores - new_max[:, None])
        shrink = tl.exp2(row_max - new_max)
        row_max = new_max
        row_sum = row_sum * shrink + tl.sum(weights, 1)
        acc = acc * shrink[:, None]
        rounded = weights.to(k_head.dtype.element_ty).to(v.dtype)
        acc = tl.dot(rounded, v, acc, input_precision="ieee")
    return acc, row_max, row_sum


@triton.jit
def split_length(length, num_splits, MIN_SPLIT: tl.constexpr, BLOCK_N: tl.constexpr):
    """Tokens of one split of a context of ``length``: whole blocks, and not too few."""
    share = tl.maximum(tl.cdiv(length, num_splits), MIN_SPLIT)
    return tl.cdiv(share, BLOCK_N) * BLOCK_N


@triton.jit(do_not_specialize=["num_splits", "table_stride"])
def decode_kernel(
    part_out,  # (bs, H_q, num_splits, D) fp32
    part_lse,  # (bs, H_q, num_splits) fp32, base 2
    q,  # (bs, H_q, D)
    k_cache,
    v_cache,  # (slots, H_kv, D)
    page_table,  # (bs, pages) int32
    cache_seqlens,  # (bs,) int32
    num_splits,
    table_stride,
    q_stride_t,
    q_stride_h,
    slot_stride,
    scale_log2,
    GROUP: tl.constexpr,  # H_q / H_kv
    BLOCK_M: tl.constexpr,  # at least GROUP
    PAGE_SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MIN_SPLIT: tl.constexpr,
    WIDEN: tl.constexpr,
):
    """One split of the context of one request, for the query heads of one KV head."""
    kv_head, split, request = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(cache_seqlens + request)
    share = split_length(length, num_splits, MIN_SPLIT, BLOCK_N)
    start = split * share
    if start >= length:
        return
    end = tl.minimum(start + share, length)

    rows = tl.arange(0, BLOCK_M)
    heads = kv_head * GROUP + rows
    dims = tl.arange(0, BLOCK_D)
    mine = (rows < GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
    q_from = q + request.to(tl.int64) * q_stride_t + heads[:, None] * q_stride_h + dims[None, :]
    q_rows = tl.load(q_from, mask=mine, other=0.0)

    if WIDEN:
        q_rows = q_rows.to(tl.float32)

    k_head, v_head = k_cache + kv_head * HEAD_DIM, v_cache + kv_head * HEAD_DIM
    pages = page_table + request.to(tl.int64) * table_stride
    limits = tl.zeros((BLOCK_M,), tl.int32) + (end - 1)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    whole = start + (end - start) // BLOCK_N * BLOCK_N
    acc, row_max, row_sum = attend(
        acc, row_max, row_sum, q_rows, limits, start, whole, k_head, v_head, pages,
        slot_stride, scale_log2, PAGE_SIZE, HEAD_DIM, BLOCK_D, BLOCK_N, False, WIDEN,
    )  # fmt: skip
    acc, row_max, row_sum = attend(
        acc, row_max, row_sum, q_rows, limits, whole, end, k_head, v_head, pages,
        slot_stride, scale_log2, PAGE_SIZE, HEAD_DIM, BLOCK_D, BLOCK_N, True, WIDEN,
    )  # fmt: skip

    num_heads = tl.num_programs(0) * GROUP
    part = (request.to(tl.int64) * num_heads + heads) * num_splits + split  # (BLOCK_M,)
    tl.store(part_lse + part, row_max + tl.log2(row_sum), mask=rows < GROUP)
    tl.store(part_out + part[:, None] * HEAD_DIM + dims[None, :], acc / row_sum[:, None], mask=mine)


@triton.jit(do_not_specialize=["num_splits"])
def combine_kernel(
    out,  # (bs, H_q, D)
    part_out,  # (bs, H_q, num_splits, D) fp32
    part_lse,  # (bs, H_q, num_splits) fp32, base 2
    cache_seqlens,  # (bs,) int32
    num_splits,
    BLOCK_SPLITS: tl.constexpr,  # at least num_splits
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MIN_SPLIT: tl.constexpr,
):
    """Weigh the parts of one query head by their share of the softmax's sum."""
    head, request = tl.program_id(0), tl.program_id(1)
    length = tl.load(cache_seqlens + request)
    used = tl.cdiv(length, split_length(length, num_splits, MIN_SPLIT, BLOCK_N))
    splits = tl.arange(0, BLOCK_SPLITS)
    dims = tl.arange(0, BLOCK_D)
    row = request.to(tl.int64) * tl.num_programs(0) + head
    part = row * num_splits + splits
    # Parts beyond the context were not written: they hold whatever was there.
    lse = tl.load(part_lse + part, mask=splits < used, other=float("-inf"))
    weights = tl.exp2(lse - tl.max(lse, 0))  # (BLOCK_SPLITS,)
    mine = (splits < used)[:, None] & (dims < HEAD_DIM)[None, :]
    parts = tl.load(part_out + part[:, None] * HEAD_DIM + dims[None, :], mask=mine, other=0.0)
    total = tl.sum(parts * weights[:, None], 0) / tl.sum(weights, 0)  # (BLOCK_D,)
    tl.store(out + row * HEAD_DIM + dims, total.to(out.dtype.element_ty), mask=dims < HEAD_DIM)


@triton.jit(do_not_specialize=["table_stride"])
def extend_kernel(
    out,  # (T, H_q, D)
    q,  # (T, H_q, D)
    k_cache,
    v_cache,  # (slots, H_kv, D)
    page_table,  # (bs, pages) int32
    cache_seqlens,  # (bs,) int32
    cu_seqlens_q,  # (bs + 1,) int32
    table_stride,
    q_stride_t,
    q_stride_h,
    slot_stride,
    scale_log2,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr,
    WIDEN: tl.constexpr,
):
    """BLOCK_M rows of the new tokens of one request, for the query heads of one KV head."""
    kv_head, request = tl.program_id(1), tl.program_id(2)
    first_token = tl.load(cu_seqlens_q + request)
    new = tl.load(cu_seqlens_q + request + 1) - first_token
    history = tl.load(cache_seqlens + request) - new
    # The last rows see most and take longest: they start first.
    block = tl.cdiv(new * GROUP, BLOCK_M) - 1 - tl.program_id(0)
    if block < 0:
        return

    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    # Rows beyond the last token compute what it does, and are not stored.
    tokens = tl.minimum(rows // GROUP, new - 1)
    heads = kv_head * GROUP + rows % GROUP
    dims = tl.arange(0, BLOCK_D)
    whole_row = (first_token + tokens).to(tl.int64)
    if HEAD_DIM == BLOCK_D:
        q_rows = tl.load(q + (whole_row * q_stride_t + heads * q_stride_h)[:, None] + dims[None, :])
    else:
        q_rows = tl.load(
            q + (whole_row * q_stride_t + heads * q_stride_h)[:, None] + dims[None, :],
            mask=(dims < HEAD_DIM)[None, :],
            other=0.0,
        )

    if WIDEN:
        q_rows = q_rows.to(tl.float32)

    k_head, v_head = k_cache + kv_head * HEAD_DIM, v_cache + kv_head * HEAD_DIM
    pages = page_table + request.to(tl.int64) * table_stride
    limits = history + tokens
    first_limit = history + block * BLOCK_M // GROUP
    end = history + tl.minimum((block * BLOCK_M + BLOCK_M - 1) // GROUP, new - 1) + 1
    seen_by_all = (first_limit + 1) // BLOCK_N * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    acc, row_max, row_sum = attend(
        acc, row_max, row_sum, q_rows, limits, 0, seen_by_all, k_head, v_head, pages,
        slot_stride, scale_log2, PAGE_SIZE, HEAD_DIM, BLOCK_D, BLOCK_N, False, WIDEN,
    )  # fmt: skip
    acc, row_max, row_sum = attend(
        acc, row_max, row_sum, q_rows, limits, seen_by_all, end, k_head, v_head, pages,
        slot_stride, scale_log2, PAGE_SIZE, HEAD_DIM, BLOCK_D, BLOCK_N, True, WIDEN,
    )  # fmt: skip

    num_heads = tl.num_programs(1) * GROUP
    mine = (rows < new * GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
    out_to = out + ((whole_row * num_heads + heads) * HEAD_DIM)[:, None] + dims[None, :]
    tl.store(out_to, (acc / row_sum[:, None]).to(out.dtype.element_ty), mask=mine)
