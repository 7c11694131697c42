"""flash-attn 2 for tests on a CPU: its two signatures, what it refuses, and torch's arithmetic.

The refusals are those of ``csrc/flash_attn/flash_api.cpp``, in its words where it has some. What
our backend never passes is refused too, so that a stand-in's ignorance can't hide a mistake.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

from minisgl_lite.kernel.paged import paged_attention


@dataclass
class FlashAttnStandIn:
    """``capability``: of the GPU that is not there. ``calls``: function names in order."""

    capability: tuple[int, int] = (9, 0)
    calls: list[str] = field(default_factory=list)

    def module(self) -> ModuleType:
        """To be put into ``sys.modules["flash_attn"]``."""
        module = ModuleType("flash_attn")
        module.__spec__ = ModuleSpec("flash_attn", None)
        module.flash_attn_varlen_func = self.flash_attn_varlen_func  # type: ignore[attr-defined]
        module.flash_attn_with_kvcache = self.flash_attn_with_kvcache  # type: ignore[attr-defined]
        return module

    def flash_attn_varlen_func(
        self,
        q: Any,
        k: Any,
        v: Any,
        cu_seqlens_q: Any,
        cu_seqlens_k: Any,
        max_seqlen_q: Any,
        max_seqlen_k: Any,
        dropout_p: Any = 0.0,
        softmax_scale: Any = None,
        causal: Any = False,
        window_size: Any = (-1, -1),
        softcap: Any = 0.0,
        alibi_slopes: Any = None,
        deterministic: Any = False,
        return_attn_probs: Any = False,
        block_table: Any = None,
    ) -> torch.Tensor:
        self.calls.append("flash_attn_varlen_func")
        unused = (dropout_p, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)
        check(unused == (0.0, (-1, -1), 0.0, None, False, False), "not what our backend passes")
        check(causal, "our backend is causal")
        self._check_tensors(q, k, v, block_table)
        for name, bounds in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)):
            check(bounds.dtype == torch.int32, f"{name} must have dtype int32")
            check(bounds.is_contiguous(), f"{name} must be contiguous")
        check(cu_seqlens_q.shape == cu_seqlens_k.shape, "cu_seqlens_k must have shape (bs + 1)")
        seqlens_q, seqlens_k = cu_seqlens_q.diff(), cu_seqlens_k.diff()
        check(int(seqlens_q.max()) <= max_seqlen_q, "a query is beyond max_seqlen_q")
        check(int(seqlens_k.max()) <= max_seqlen_k, "a key is beyond max_seqlen_k")
        if block_table is None:
            check(
                k.dim() == 3 and int(cu_seqlens_k[-1]) == len(k), "k must have shape (total_k, …)"
            )
            k, v, block_table = paginate(k, v, cu_seqlens_k)
        return attend(q, k, v, block_table, seqlens_k.int(), cu_seqlens_q, softmax_scale)

    def flash_attn_with_kvcache(
        self,
        q: Any,
        k_cache: Any,
        v_cache: Any,
        k: Any = None,
        v: Any = None,
        rotary_cos: Any = None,
        rotary_sin: Any = None,
        cache_seqlens: Any = None,
        cache_batch_idx: Any = None,
        cache_leftpad: Any = None,
        block_table: Any = None,
        softmax_scale: Any = None,
        causal: Any = False,
        window_size: Any = (-1, -1),
        softcap: Any = 0.0,
        rotary_interleaved: Any = True,
        alibi_slopes: Any = None,
        num_splits: Any = 0,
        return_softmax_lse: Any = False,
    ) -> torch.Tensor:
        self.calls.append("flash_attn_with_kvcache")
        absent = (k, v, rotary_cos, rotary_sin, cache_batch_idx, cache_leftpad, alibi_slopes)
        check(absent == (None,) * 7, "not what our backend passes")
        rest = (window_size, softcap, rotary_interleaved, num_splits, return_softmax_lse)
        check(rest == ((-1, -1), 0.0, True, 0, False), "not what our backend passes")
        check(causal and block_table is not None, "our backend is causal and pages")
        check(q.dim() == 4, "q must have shape (batch_size, seqlen_q, num_heads, head_size)")
        self._check_tensors(q.flatten(0, 1), k_cache, v_cache, block_table)
        check(cache_seqlens.dtype == torch.int32, "seqlens_k must have dtype int32")
        bs, new = q.shape[:2]
        check(cache_seqlens.shape == (bs,), "seqlens_k must have shape (batch_size)")
        bounds = torch.arange(bs + 1, dtype=torch.int32) * new
        out = attend(
            q.flatten(0, 1), k_cache, v_cache, block_table, cache_seqlens, bounds, softmax_scale
        )
        return out.unflatten(0, (bs, new))

    def _check_tensors(self, q: Any, k: Any, v: Any, block_table: Any) -> None:
        check(self.capability >= (8, 0), "FlashAttention only supports Ampere GPUs or newer.")
        halves = (torch.float16, torch.bfloat16)
        check(q.dtype in halves, "FlashAttention only support fp16 and bf16 data type")
        check(k.dtype == q.dtype, "query and key must have the same dtype")
        check(v.dtype == q.dtype, "query and value must have the same dtype")
        for tensor in (q, k, v):
            check(tensor.stride(-1) == 1, "Input tensor must have contiguous last dimension")
        dim, kv_heads = q.shape[-1], k.shape[-2]
        check(dim <= 256, "FlashAttention forward only supports head dimension at most 256")
        check(dim % 8 == 0, "query, key, value, and out_ must have a head_size that is a multiple")
        check(q.shape[1] % kv_heads == 0, "Number of heads in key/value must divide")
        check(k.shape == v.shape and k.shape[-1] == dim, "k and v must have the same shape")
        if block_table is not None:
            check(k.dim() == 4, "k must have shape (num_blocks, page_block_size, heads, head_size)")
            check(k.shape[1] % 256 == 0, "Paged KV cache block size must be divisible by 256")
            check(block_table.dtype == torch.int32, "block_table must have dtype torch.int32")
            check(block_table.stride(-1) == 1, "block_table must have contiguous last dimension")


def check(holds: Any, message: str) -> None:
    """As TORCH_CHECK: a RuntimeError."""
    if not holds:
        raise RuntimeError(message)


def paginate(
    k: torch.Tensor, v: torch.Tensor, cu_seqlens_k: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ragged K and V as pages of one token."""
    starts, lengths = cu_seqlens_k[:-1], cu_seqlens_k.diff()
    columns = torch.arange(int(lengths.max()), dtype=torch.int32)
    table = (starts[:, None] + columns).clamp(max=len(k) - 1).int()
    return k.unsqueeze(1), v.unsqueeze(1), table


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_table: torch.Tensor,
    seqlens_k: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    softmax_scale: float | None,
) -> torch.Tensor:
    """In float64, rounded once; the causal mask is aligned to the last query and key."""
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    wide = [tensor.double().contiguous() for tensor in (q, k, v)]
    out = paged_attention(
        *wide, block_table.contiguous(), seqlens_k.int(), cu_seqlens_q.int(), scale=scale
    )
    return out.to(q.dtype)
