"""Kernels on a GPU: right by float64, and how near to the speed of a copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from minisgl_lite.attention.base import Place
from minisgl_lite.attention.fa import FlashAttentionBackend
from minisgl_lite.kernel import triton_paged
from minisgl_lite.kernel.store import scatter_rows_torch
from minisgl_lite.kernel.triton_store import scatter_rows
from minisgl_lite.models import ModelConfig
from tests.gpu.plan import Plan, seconds
from tests.kernel.pages import TOLERANCE, PagedCase, make_case

RAGGED = {
    "decode": [(1, total) for total in (1, 15, 16, 17, 127, 128, 129, 700, 2049)],
    "extend": [(1, 1), (17, 17), (128, 129), (5, 300), (200, 200), (130, 1000), (63, 64)],
}


def processors(plan: Plan) -> int:
    if plan.is_dry:
        return 1
    return int(torch.cuda.get_device_properties(plan.device).multi_processor_count)


# ---- right ---------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    what: str
    error: float
    allowed: float

    @property
    def good(self) -> bool:
        return self.error <= self.allowed


def check_kernels(plan: Plan) -> Iterator[Verdict]:
    """Each kernel in three dtypes and every model's shape; other page sizes in bf16."""
    for config in plan.models:
        for dtype in TOLERANCE:
            yield check_store(plan, config, dtype)
            yield from check_attention(plan, config, dtype, 16)
        for page_size in plan.page_sizes:
            if page_size != 16:
                yield from check_attention(plan, config, torch.bfloat16, page_size)


def check_store(plan: Plan, config: ModelConfig, dtype: torch.dtype) -> Verdict:
    """Bit for bit; K contiguous, V cut out of qkv, int32 and int64 slots."""
    heads, dim, tokens = config.num_kv_heads, config.head_dim, 300
    kv = torch.randn(tokens, 2 * heads, dim, device=plan.device).to(dtype)
    k, v = kv[:, :heads].contiguous(), kv[:, heads:]
    slots = torch.randperm(tokens + 9, device=plan.device)[:tokens]
    wrong = 0
    for indices in (slots, slots.int()):
        caches = [torch.randn(tokens + 9, heads, dim, device=plan.device).to(dtype)] * 2
        ours, twins = ([cache.clone() for cache in caches] for _ in range(2))
        scatter_rows(*ours, indices, k, v)
        scatter_rows_torch(*twins, indices, k, v)
        wrong += sum(int((a != b).sum()) for a, b in zip(ours, twins, strict=True))
    return Verdict(f"store_cache {config.model_type} {dtype}", wrong, 0)


def check_attention(
    plan: Plan, config: ModelConfig, dtype: torch.dtype, page_size: int
) -> Iterator[Verdict]:
    for kind, lengths in RAGGED.items():
        case = make_case(
            lengths[:4] if plan.is_dry else lengths,
            page_size=page_size,
            heads=config.num_qo_heads,
            kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            dtype=dtype,
            device=plan.device,
        )
        out = decode(case, 8) if kind == "decode" else extend(case)
        what = f"{kind} {config.model_type} {dtype} P={page_size}"
        yield Verdict(what, case.worst_error(out), TOLERANCE[dtype])


def decode(case: PagedCase, splits: int, blocks: Any = None) -> torch.Tensor:
    return triton_paged.decode_attention(
        *case[:5], scale=case.scale, num_splits=splits, blocks=blocks
    )


def extend(case: PagedCase, blocks: Any = None) -> torch.Tensor:
    return triton_paged.extend_attention(
        *case, scale=case.scale, max_seqlen_q=case.max_seqlen_q, blocks=blocks
    )


# ---- fast ----------------------------------------------------------------------------------------


class Speed(NamedTuple):
    """``flash_attn``: the same through flash-attn, where it can be imported."""

    what: str
    bytes_per_second: float
    flash_attn: float | None = None
    goal: float | None = None


def copy_speed(plan: Plan) -> float:
    """Bytes read and written per second by a plain copy between two large tensors."""
    source = torch.randn(plan.copy_bytes // 4, device=plan.device)
    target = torch.empty_like(source)
    return 2 * plan.copy_bytes / seconds(plan, lambda: target.copy_(source))


def store_speed(plan: Plan, config: ModelConfig) -> Speed:
    """Random rows of a pool four times as large; each row is read once and written once."""
    heads, dim, rows = config.num_kv_heads, config.head_dim, plan.store_rows
    caches = torch.empty(2, 4 * rows, heads, dim, dtype=torch.bfloat16, device=plan.device)
    kv = torch.randn(rows, 2 * heads, dim, device=plan.device).bfloat16()
    k, v = kv[:, :heads].contiguous(), kv[:, heads:]
    slots = torch.randperm(4 * rows, device=plan.device)[:rows].int()
    time = seconds(plan, lambda: scatter_rows(caches[0], caches[1], slots, k, v))
    moved = 2 * kv.numel() * kv.element_size()
    return Speed(f"store_cache {config.model_type}, {rows:,} rows", moved / time, goal=0.7)


def decode_case(plan: Plan, config: ModelConfig, page_size: int) -> PagedCase:
    return make_case(
        [(1, plan.decode_context)] * plan.decode_batch,
        page_size=page_size,
        heads=config.num_qo_heads,
        kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        dtype=torch.bfloat16,
        device=plan.device,
    )


def splits_for(plan: Plan, config: ModelConfig) -> int:
    return triton_paged.choose_num_splits(
        plan.decode_batch, config.num_kv_heads, plan.decode_context, processors(plan)
    )


def decode_speed(plan: Plan, config: ModelConfig, page_size: int) -> Speed:
    """K and V of every context are read once."""
    case = decode_case(plan, config, page_size)
    splits = splits_for(plan, config)
    moved = plan.decode_batch * plan.decode_context * 2 * config.num_kv_heads * config.head_dim * 2
    ours = moved / seconds(plan, lambda: decode(case, splits))
    size = f"{plan.decode_batch} x {plan.decode_context:,}"
    what = f"decode attention {config.model_type}, {size}, P={page_size}"
    theirs = flash_attn_seconds(plan, case)
    return Speed(what, ours, theirs and moved / theirs, goal=0.8)


def flash_attn_seconds(plan: Plan, case: PagedCase) -> float | None:
    """The same decode step through flash-attn's paged call; None where it can't be made."""
    page_size, _, dim = case.k_cache.shape[1:]
    if plan.is_dry or page_size % 256 != 0:
        return None
    capability = torch.cuda.get_device_capability(plan.device)
    place = Place(plan.device, capability, case.q.dtype, page_size, dim)
    if FlashAttentionBackend.why_not(place) is not None:
        return None
    from flash_attn import flash_attn_with_kvcache

    # Contexts of one length fill the table: its last column stands for no page.
    table = case.page_table[:, :-1].contiguous()
    q = case.q.unsqueeze(1)
    return seconds(
        plan,
        lambda: flash_attn_with_kvcache(
            q,
            case.k_cache,
            case.v_cache,
            cache_seqlens=case.cache_seqlens,
            block_table=table,
            softmax_scale=case.scale,
            causal=True,
        ),
    )


def tune_decode(plan: Plan, config: ModelConfig) -> Iterator[Speed]:
    """Other blocks and splits for the decode step, to choose better ones from."""
    case = decode_case(plan, config, 16)
    moved = plan.decode_batch * plan.decode_context * 2 * config.num_kv_heads * config.head_dim * 2
    chosen = splits_for(plan, config)
    for n, warps, stages in ((32, 2, 5), (32, 4, 7), (64, 4, 3), (64, 4, 5), (128, 8, 3)):
        for splits in sorted({max(chosen // 2, 1), chosen, chosen * 2}):
            blocks = triton_paged.Blocks(16, n, warps, stages, plan.is_dry)
            time = seconds(plan, lambda b=blocks, s=splits: decode(case, s, b))  # type: ignore[misc]
            yield Speed(f"{blocks} splits={splits}", moved / time)
