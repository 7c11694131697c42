"""A paged cache made by hand: ragged requests, shuffled pages, and NaN wherever nobody owns a slot.

Shared by the kernels' tests, the backends' parity test and the GPU check; torch alone is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch

from minisgl_lite.kernel.paged import paged_attention

NO_PAGE = 2**30
"""Stands in the page table beyond a request's pages: whoever reads through it is found out."""

TOLERANCE = {torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}
"""Largest relative error of one output row against float64: a few roundings of the dtype."""


class PagedCase(NamedTuple):
    """The arguments of ``paged_attention``, in its order, and what is known of them."""

    q: torch.Tensor  # (T, H_q, D)
    k_cache: torch.Tensor  # (N', P, H_kv, D)
    v_cache: torch.Tensor
    page_table: torch.Tensor  # (bs, pages) int32
    cache_seqlens: torch.Tensor  # (bs,) int32
    cu_seqlens_q: torch.Tensor  # (bs + 1,) int32

    @property
    def scale(self) -> float:
        return self.q.shape[2] ** -0.5

    @property
    def max_seqlen_q(self) -> int:
        return int(self.cu_seqlens_q.diff().max())

    def reference(self) -> torch.Tensor:
        """The right answer, computed in float64."""
        wide = [tensor.double() for tensor in self[:3]]
        return paged_attention(*wide, *self[3:], scale=self.scale)

    def worst_error(self, out: torch.Tensor) -> float:
        """The largest relative error of a (token, head) row; inf where a row is NaN."""
        wanted = self.reference()
        error = (out.double() - wanted).norm(dim=-1) / wanted.norm(dim=-1)
        return float(error.nan_to_num(float("inf")).max())


def make_case(
    lengths: Sequence[tuple[int, int]],
    *,
    page_size: int,
    heads: int = 2,
    kv_heads: int = 1,
    head_dim: int = 16,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    seed: int = 0,
) -> PagedCase:
    """``lengths``: (new tokens, tokens in all) of each request. q's rows have gaps between them."""
    generator = torch.Generator(device).manual_seed(seed)
    pages_of = [-(-total // page_size) for _, total in lengths]
    num_pages = sum(pages_of) + 2
    order = torch.randperm(num_pages, generator=generator, device=device).to(torch.int32)
    width = max(pages_of) + 1
    page_table = torch.full((len(lengths), width), NO_PAGE, dtype=torch.int32, device=device)
    caches = [
        torch.full((num_pages, page_size, kv_heads, head_dim), float("nan"), device=device)
        for _ in range(2)
    ]
    taken = 0
    for row, pages, (_, total) in zip(page_table, pages_of, lengths, strict=True):
        mine = order[taken : taken + pages]
        row[:pages] = mine
        taken += pages
        slots = (
            mine[:, None].long() * page_size + torch.arange(page_size, device=device)
        ).flatten()
        for cache in caches:
            rows = torch.randn(total, kv_heads, head_dim, generator=generator, device=device)
            cache.view(-1, kv_heads, head_dim)[slots[:total]] = rows
    num_tokens = sum(new for new, _ in lengths)
    wide = torch.randn(num_tokens, heads + kv_heads, head_dim, generator=generator, device=device)
    ints = {"dtype": torch.int32, "device": device}
    return PagedCase(
        wide.to(dtype)[:, :heads],
        caches[0].to(dtype),
        caches[1].to(dtype),
        page_table,
        torch.tensor([total for _, total in lengths], **ints),
        torch.tensor([0, *accumulate(new for new, _ in lengths)], **ints),
    )
