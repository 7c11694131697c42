from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from minisgl_lite.attention.cpu import CpuAttnBackend
from minisgl_lite.attention.paged import PagedMetadata
from minisgl_lite.kernel.attend import decode_attention_cpu


def context(cache: torch.Tensor, pages: list[int], device_len: int) -> torch.Tensor:
    """(H_kv, device_len, D) in the order of the positions."""
    return cache[pages].transpose(0, 1).flatten(1, 2)[:, :device_len]


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, first: int) -> torch.Tensor:
    """Query i sees ``first + i + 1`` tokens."""
    group = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(group, dim=0), v.repeat_interleave(group, dim=0)
    scores = q @ k.transpose(1, 2) / q.shape[2] ** 0.5
    visible = torch.ones(scores.shape[1:], dtype=torch.bool).tril(first)
    return scores.masked_fill(~visible, float("-inf")).softmax(-1) @ v


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    keys, values = context(k, pages, device_len), context(v, pages, device_len)
    return attend(q, keys, values, device_len - q.shape[1])


def page_by_page(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    """One page at a time, with a running maximum and a running sum; nothing is gathered."""
    heads, new, dim = q.shape
    kv_heads, page_size = k.shape[1:3]
    queries = q.reshape(kv_heads, -1, new, dim)
    positions = torch.arange(device_len - new, device_len)[:, None]
    best = torch.full((kv_heads, heads // kv_heads, new, 1), float("-inf"))
    total, out = torch.zeros_like(best), torch.zeros_like(queries)
    for number, page in enumerate(pages):
        count = min(page_size, device_len - number * page_size)
        keys, values = k[page, :, None, :count], v[page, :, None, :count]
        visible = number * page_size + torch.arange(count) <= positions
        scores = (queries @ keys.transpose(2, 3) * dim**-0.5).masked_fill(~visible, float("-inf"))
        higher = torch.maximum(best, scores.amax(-1, keepdim=True))
        known = torch.where(higher == float("-inf"), 0.0, higher)
        weights = (scores - known).exp()
        keep = (best - known).exp()
        total = total * keep + weights.sum(-1, keepdim=True)
        out = out * keep + weights @ values
        best = higher
    return (out / total).reshape(heads, new, dim)


def with_torchs_own(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    mask = torch.ones(q.shape[1], device_len, dtype=torch.bool).tril(device_len - q.shape[1])
    keys, values = context(k, pages, device_len), context(v, pages, device_len)
    out = scaled_dot_product_attention(
        q[None], keys[None], values[None], attn_mask=mask, enable_gqa=True
    )
    return out[0]


def mask_from_the_beginning(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    """What `is_causal=True` does: right only without a hit."""
    return attend(q, context(k, pages, device_len), context(v, pages, device_len), 0)


def no_mask(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    return attend(q, context(k, pages, device_len), context(v, pages, device_len), device_len)


def not_itself(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    keys, values = context(k, pages, device_len), context(v, pages, device_len)
    return attend(q, keys, values, device_len - q.shape[1] - 1).nan_to_num()


def new_tokens_only(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    keys, values = context(k, pages, device_len), context(v, pages, device_len)
    new = q.shape[1]
    return attend(q, keys[:, -new:], values[:, -new:], 0)


def whole_pages(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    """Masks what lies behind device_len instead of cutting it off."""
    room = len(pages) * k.shape[2]
    keys, values = context(k, pages, room), context(v, pages, room)
    return attend(q, keys, values, device_len - q.shape[1])


def pages_ascending(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    return reference(q, k, v, sorted(pages), device_len)


def pages_side_by_side(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    return reference(q, k, v, [(pages[0] + i) % len(k) for i in range(len(pages))], device_len)


def places_before_heads(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    """Reads the pages as if they lay as in the engine's own pool."""
    n, heads, page_size, dim = k.shape
    swapped = [c.reshape(n, page_size, heads, dim).transpose(1, 2) for c in (k, v)]
    return reference(q, *swapped, pages, device_len)


def heads_in_turn(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    """Query head h uses KV head h modulo H_kv."""
    group = q.shape[0] // k.shape[1]
    return reference(q, k.repeat(1, group, 1, 1), v.repeat(1, group, 1, 1), pages, device_len)


def no_scale(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    return reference(q * q.shape[2] ** 0.5, k, v, pages, device_len)


def bare_exponentials(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    """Softmax without taking the largest score off first."""
    keys, values = context(k, pages, device_len), context(v, pages, device_len)
    group = q.shape[0] // k.shape[1]
    keys, values = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0)
    weights = (q @ keys.transpose(1, 2) / q.shape[2] ** 0.5).exp().tril(device_len - q.shape[1])
    return weights @ values / weights.sum(-1, keepdim=True)


def in_float64(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    return reference(q.double(), k.double(), v.double(), pages, device_len)


def as_decode_steps(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> dict[str, Any]:
    """What the compiled kernel takes: a request for each new token, head_dim a multiple of 16."""
    new, dim = q.shape[1:]
    wide = [pad(part, (0, -dim % 16)) for part in (q.transpose(0, 1), k, v)]
    lengths = torch.arange(device_len - new + 1, device_len + 1, dtype=torch.int32)
    return {
        "q": wide[0].contiguous(),
        "k_cache": wide[1].transpose(1, 2).contiguous(),
        "v_cache": wide[2].transpose(1, 2).contiguous(),
        "page_table": torch.tensor([pages] * new, dtype=torch.int32),
        "cache_seqlens": lengths,
    }


def calls_the_compiled_kernel(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    parts = as_decode_steps(q, k, v, pages, device_len)
    out = decode_attention_cpu(**parts, scale=q.shape[2] ** -0.5)
    return out[:, :, : q.shape[2]].transpose(0, 1)


def calls_the_cpu_backend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pages: list[int], device_len: int
) -> torch.Tensor:
    parts = as_decode_steps(q, k, v, pages, device_len)
    sums = torch.arange(q.shape[1] + 1, dtype=torch.int32)
    lengths, table = parts["cache_seqlens"], parts["page_table"]
    batch: Any = SimpleNamespace(attn_metadata=PagedMetadata(sums, sums, lengths, 0, 1, table))
    pool = SimpleNamespace(k_cache=lambda _: parts["k_cache"], v_cache=lambda _: parts["v_cache"])
    backend: Any = CpuAttnBackend.__new__(CpuAttnBackend)
    vars(backend).update(kvcache=pool, store=lambda *_: None, scale=q.shape[2] ** -0.5)
    out = backend.forward(parts["q"], parts["q"], parts["q"], 0, batch)
    return out[:, :, : q.shape[2]].transpose(0, 1)


RIGHT = [reference, page_by_page, with_torchs_own]
WRONG = {
    mask_from_the_beginning: "it should be",
    no_mask: "it should be",
    not_itself: "it should be",
    new_tokens_only: "it should be",
    whole_pages: "is nan: a slot was read that holds no token of the request",
    pages_ascending: "new of",
    pages_side_by_side: "is nan",
    places_before_heads: "it should be",
    heads_in_turn: "it should be",
    no_scale: "it should be",
    bare_exponentials: "an exponential was too large",
    in_float64: "returned torch.float64; torch.float32 is wanted",
    calls_the_compiled_kernel: "calls the package's own decode_attention_cpu",
    calls_the_cpu_backend: "calls the package's own CpuAttnBackend.forward",
}
