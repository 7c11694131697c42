from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from minisgl_lite.kernel.paged import check_claims, check_paged, paged_attention
from tests.kernel.pages import make_case

LENGTHS = [(1, 1), (3, 10), (7, 7), (1, 9)]


@pytest.mark.parametrize("page_size", [1, 3, 4, 16])
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (6, 2), (8, 1)])
def test_the_twin_is_attention_over_each_request_alone(
    page_size: int, heads: int, kv_heads: int
) -> None:
    case = make_case(LENGTHS, page_size=page_size, heads=heads, kv_heads=kv_heads)
    out = paged_attention(*case, scale=case.scale)
    at = 0
    for i, (new, total) in enumerate(LENGTHS):
        slots = [
            int(case.page_table[i, p // page_size]) * page_size + p % page_size
            for p in range(total)
        ]
        k, v = (cache.flatten(0, 1)[slots].transpose(0, 1) for cache in case[1:3])
        q = case.q[at : at + new].transpose(0, 1)
        mask = torch.arange(total) <= torch.arange(total - new, total)[:, None]
        wanted = scaled_dot_product_attention(
            q[None], k[None], v[None], attn_mask=mask, enable_gqa=True
        )[0].transpose(0, 1)
        assert torch.allclose(out[at : at + new], wanted, atol=1e-5)
        at += new


def test_what_fits_is_let_through() -> None:
    case = make_case(LENGTHS, page_size=4)
    check_paged(*case)
    check_paged(case.q[:4], *case[1:5])  # one query each


def changed(**changes: Any) -> dict[str, Any]:
    case = make_case(LENGTHS, page_size=4, heads=2, kv_heads=1)
    return case._asdict() | {name: change(getattr(case, name)) for name, change in changes.items()}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"v_cache": lambda v: v[:-1]}, "caches are .* alike"),
        ({"q": lambda q: q[..., :8]}, r"q is \(T, a multiple of 1, 16\).*not \(12, 2, 8\)"),
        ({"q": lambda q: q.transpose(1, 2).contiguous().transpose(1, 2)}, "last dimension"),
        ({"k_cache": lambda k: k.transpose(0, 1).contiguous().transpose(0, 1)}, "contiguous"),
        ({"k_cache": torch.Tensor.half}, "k_cache is torch.float16 on cpu; q is torch.float32"),
        ({"cache_seqlens": torch.Tensor.long}, r"cache_seqlens is \(4,\) int32, not .*int64"),
        ({"cu_seqlens_q": lambda c: c[:-1]}, r"cu_seqlens_q is \(5,\) int32, not \(4,\)"),
        ({"page_table": torch.Tensor.long}, r"page_table is \(4, pages\) int32"),
        ({"page_table": lambda t: t[:-1]}, r"page_table is \(4, pages\) int32, not \(3, 4\)"),
        ({"page_table": lambda t: t.t().contiguous().t()}, "rows must be contiguous"),
        ({"cu_seqlens_q": lambda c: c - 1}, "cu_seqlens_q goes from -1 to 11; q has 12"),
        ({"cache_seqlens": lambda s: s - 1}, "request 0 has 1 new of 0 tokens"),
        ({"cache_seqlens": lambda s: s + 99}, "request 0 has 1 new of 100 tokens in 4 pages of 4"),
        ({"page_table": lambda t: t - 1}, r"page -1 is outside the pool's \[0, "),
        ({"page_table": lambda t: t + 10}, r"page \d\d is outside the pool's \[0, "),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_paged(**changed(**changes))


def test_one_query_each_is_counted() -> None:
    case = make_case(LENGTHS, page_size=4)
    with pytest.raises(ValueError, match="q has 12 rows for 4 requests; one each"):
        check_paged(*case[:5])


def test_heads_that_do_not_share_evenly_are_refused() -> None:
    case = make_case(LENGTHS, page_size=4, heads=3, kv_heads=2)
    with pytest.raises(ValueError, match="a multiple of 2"):
        check_paged(*case)


def test_the_kernels_claim_three_dtypes_and_heads_of_128() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        check_claims(torch.empty(1, 1, 128, dtype=dtype))
    with pytest.raises(ValueError, match=r"q is torch.float64; the kernels take"):
        check_claims(torch.empty(1, 1, 64, dtype=torch.float64))
    with pytest.raises(ValueError, match="head_dim 192: the kernels take 128 at most"):
        check_claims(torch.empty(1, 1, 192))
