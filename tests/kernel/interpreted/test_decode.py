from __future__ import annotations

import pytest
import torch

from minisgl_lite.kernel.triton_paged import MIN_SPLIT, choose_num_splits, decode_attention
from tests.kernel.pages import TOLERANCE, PagedCase, make_case

PAGE_SIZES = (1, 3, 4, 16, 256)
BLOCK_N = 16  # of the interpreter's blocks


def decode(case: PagedCase, num_splits: int) -> torch.Tensor:
    return decode_attention(*case[:5], scale=case.scale, num_splits=num_splits)


def one_each(*totals: int) -> list[tuple[int, int]]:
    return [(1, total) for total in totals]


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("group", [1, 3, 4, 8])
def test_every_page_size_and_group(page_size: int, group: int) -> None:
    around_a_page = {max(page_size + step, 1) for step in (-1, 0, 1)}
    case = make_case(
        one_each(1, 37, *sorted(around_a_page)), page_size=page_size, heads=2 * group, kv_heads=2
    )
    assert case.worst_error(decode(case, 2)) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("head_dim", [8, 64, 80, 128])
def test_every_dtype_and_head_dim(dtype: torch.dtype, head_dim: int) -> None:
    case = make_case(
        one_each(70, 3), page_size=4, heads=3, kv_heads=1, head_dim=head_dim, dtype=dtype
    )
    assert case.worst_error(decode(case, 4)) < TOLERANCE[dtype]


@pytest.mark.parametrize("border", [BLOCK_N, 2 * BLOCK_N, MIN_SPLIT, 2 * MIN_SPLIT])
@pytest.mark.parametrize("num_splits", [1, 2, 4])
def test_around_the_borders_of_blocks_and_splits(border: int, num_splits: int) -> None:
    case = make_case(one_each(border - 1, border, border + 1), page_size=16)
    assert case.worst_error(decode(case, num_splits)) < TOLERANCE[torch.float32]


def test_more_splits_than_a_context_needs_are_left_alone() -> None:
    case = make_case(one_each(1, 5 * MIN_SPLIT), page_size=16)
    assert case.worst_error(decode(case, 8)) < TOLERANCE[torch.float32]


def test_splits_change_no_more_than_rounding() -> None:
    case = make_case(one_each(300, 9), page_size=3, heads=4, kv_heads=2)
    whole, split = decode(case, 1), decode(case, 4)
    assert torch.allclose(whole, split, rtol=1e-5, atol=1e-6)


def test_batch_mates_change_nothing_at_equal_splits() -> None:
    lengths = one_each(150, 40, 7)
    together = make_case(lengths, page_size=4)
    out = decode(together, 2)
    for i in range(len(lengths)):
        alone = PagedCase(
            together.q[i : i + 1],
            together.k_cache,
            together.v_cache,
            together.page_table[i : i + 1],
            together.cache_seqlens[i : i + 1],
            together.cu_seqlens_q[:2],
        )
        assert torch.equal(decode(alone, 2)[0], out[i])


def test_very_large_scores_do_not_overflow() -> None:
    case = make_case(one_each(200, 5), page_size=4)
    case.q.mul_(1e3)
    assert case.worst_error(decode(case, 2)) < 1e-3  # one key has all the weight


@pytest.mark.parametrize(
    ("bs", "kv_heads", "max_seq_len", "processors", "splits"),
    [
        (1, 8, 32768, 132, 64),  # never more than 64
        (1, 8, 128, 132, 1),  # a short context is not worth two
        (1, 8, 1024, 132, 8),
        (64, 8, 8192, 132, 8),  # 2,112 programs wanted: 5 splits, rounded up
        (256, 8, 8192, 132, 2),
        (512, 8, 8192, 132, 1),
        (4, 2, 96, 1, 1),
    ],
)
def test_number_of_splits(
    bs: int, kv_heads: int, max_seq_len: int, processors: int, splits: int
) -> None:
    assert choose_num_splits(bs, kv_heads, max_seq_len, processors) == splits
