from __future__ import annotations

import pytest
import torch

from minisgl_lite.kernel.store import scatter_rows_torch
from minisgl_lite.kernel.triton_store import MAX_COLUMNS, TILE, scatter_rows

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def assert_same_as_twin(
    slots: int, indices: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> None:
    """Bit for bit, rows that no token goes to included."""
    shape = (slots, *k.shape[1:])
    before = [torch.randn(shape).to(k.dtype) for _ in range(2)]
    ours, twins = [cache.clone() for cache in before], [cache.clone() for cache in before]
    scatter_rows(*ours, indices, k, v)
    scatter_rows_torch(*twins, indices, k, v)
    for our, twin in zip(ours, twins, strict=True):
        assert torch.equal(our.view(torch.int8), twin.view(torch.int8))


def some_rows(tokens: int, heads: int, dim: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(tokens, heads, dim).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_every_dtype(dtype: torch.dtype, index_dtype: torch.dtype) -> None:
    k, v = some_rows(33, 3, 64, dtype), some_rows(33, 3, 64, dtype)
    assert_same_as_twin(50, torch.randperm(50)[:33].to(index_dtype), k, v)


@pytest.mark.parametrize(("heads", "dim"), [(1, 8), (3, 64), (8, 128), (3, 20), (9, 128), (17, 80)])
@pytest.mark.parametrize("around", [-1, 0, 1])
def test_around_the_borders_of_a_block(heads: int, dim: int, around: int) -> None:
    block_t = min(TILE // min(1 << (heads * dim - 1).bit_length(), MAX_COLUMNS), 64)
    tokens = 2 * block_t + around
    k, v = (some_rows(tokens, heads, dim, torch.float16) for _ in range(2))
    assert_same_as_twin(tokens + 5, torch.randperm(tokens + 5)[:tokens].int(), k, v)


def test_strided_inputs() -> None:
    tokens, heads, dim = 21, 3, 16
    qkv = torch.randn(tokens, (4 * heads + 2 * heads) * dim)
    k_dim = 4 * heads * dim
    k = qkv[:, k_dim : k_dim + heads * dim].unflatten(1, (heads, dim))  # as the layer cuts it
    by_head = torch.randn(heads, tokens, dim).transpose(0, 1)
    by_column = torch.randn(dim, heads, tokens).permute(2, 1, 0)
    one_row = torch.randn(1, heads, dim).expand(tokens, -1, -1)
    indices = torch.randperm(40)[:tokens]
    assert_same_as_twin(40, indices, k, by_head)
    assert_same_as_twin(40, indices, by_column, one_row)
    assert_same_as_twin(40, indices, one_row, by_column)


def test_indices_with_gaps_between_them_are_read_as_they_lie() -> None:
    rows = some_rows(8, 2, 8, torch.float32)
    both = torch.arange(32).view(16, 2)
    assert_same_as_twin(32, both[:8, 1].contiguous(), rows, rows + 1)


def test_no_tokens() -> None:
    assert_same_as_twin(4, torch.empty(0, dtype=torch.int32), *[torch.empty(0, 2, 8)] * 2)
