from __future__ import annotations

import random

import pytest
import torch

from minisgl_lite.kernel.triton_paged import Blocks, extend_attention
from tests.kernel.pages import TOLERANCE, PagedCase, make_case

PAGE_SIZES = (1, 3, 4, 16, 256)
BLOCK_M, BLOCK_N = 32, 16  # of the interpreter's blocks


def extend(case: PagedCase, blocks: Blocks | None = None) -> torch.Tensor:
    return extend_attention(*case, scale=case.scale, max_seqlen_q=case.max_seqlen_q, blocks=blocks)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("group", [1, 3, 4, 8])
def test_every_page_size_and_group(page_size: int, group: int) -> None:
    """No hit, a partial hit of whole pages, a hit that leaves one token, and one mid-page."""
    page = page_size
    lengths = [(page + 1, page + 1), (5, page + 5), (1, page + 1), (2, page + 2 + page // 2)]
    if page == 256:
        lengths = lengths[1:]
    case = make_case(lengths, page_size=page, heads=2 * group, kv_heads=2)
    assert case.worst_error(extend(case)) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("head_dim", [8, 64, 80, 128])
def test_every_dtype_and_head_dim(dtype: torch.dtype, head_dim: int) -> None:
    case = make_case(
        [(9, 30), (20, 20)], page_size=4, heads=3, kv_heads=1, head_dim=head_dim, dtype=dtype
    )
    assert case.worst_error(extend(case)) < TOLERANCE[dtype]


@pytest.mark.parametrize("new", [BLOCK_M - 1, BLOCK_M, BLOCK_M + 1])
@pytest.mark.parametrize("history", [0, BLOCK_N - 1, BLOCK_N, BLOCK_N + 1])
def test_around_the_borders_of_blocks(new: int, history: int) -> None:
    case = make_case([(new, history + new), (1, 1)], page_size=4, heads=1)
    assert case.worst_error(extend(case)) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("group", [3, 5])
def test_a_block_that_ends_inside_a_group(group: int) -> None:
    """32 rows hold 10 tokens of 3 heads and 2 heads of the next one."""
    case = make_case([(11, 40), (23, 23)], page_size=4, heads=group)
    assert case.worst_error(extend(case)) < TOLERANCE[torch.float32]


def test_blocks_of_another_shape() -> None:
    case = make_case([(33, 70), (5, 5)], page_size=3, heads=4, kv_heads=2)
    for blocks in (Blocks(16, 32, 4, 1), Blocks(64, 16, 4, 1)):
        assert case.worst_error(extend(case, blocks)) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("seed", range(6))
def test_random_ragged_batches(seed: int) -> None:
    rng = random.Random(seed)
    lengths = []
    for _ in range(rng.randint(1, 5)):
        total = rng.randint(1, 60)
        lengths.append((rng.randint(1, total), total))
    kv_heads = rng.choice([1, 2])
    case = make_case(
        lengths,
        page_size=rng.choice(PAGE_SIZES),
        heads=kv_heads * rng.choice([1, 2, 3, 4, 8]),
        kv_heads=kv_heads,
        seed=seed,
    )
    assert case.worst_error(extend(case)) < TOLERANCE[torch.float32]
