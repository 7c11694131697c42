from __future__ import annotations

import pytest
import torch

from minisgl_lite.scheduler.table import TableManager


def make_table(rows: int = 3) -> TableManager:
    return TableManager(rows, torch.zeros((rows + 1, 32), dtype=torch.int32))


def test_rows_are_a_stack() -> None:
    """Highest first; the row freed last is taken first; the dummy's row is never handed out."""
    table = make_table(3)
    assert table.available_size == 3
    assert [table.allocate(), table.allocate(), table.allocate()] == [2, 1, 0]
    assert table.available_size == 0
    table.free(1)
    table.free(2)
    assert [table.allocate(), table.allocate()] == [2, 1]


def test_token_pool_is_zeros_of_the_tables_shape() -> None:
    table = make_table(3)
    assert table.token_pool.shape == table.page_table.shape
    assert table.token_pool.dtype == torch.int32
    assert (table.token_pool == 0).all()
    assert table.token_pool.data_ptr() != table.page_table.data_ptr()


@pytest.mark.parametrize("row", [2, 3, -1])
def test_a_row_that_is_not_in_use_cannot_be_freed(row: int) -> None:
    """Free already, the dummy's, or no row at all."""
    table = make_table(3)
    table.allocate()
    table.free(2)
    with pytest.raises(RuntimeError, match=str(row)):
        table.free(row)
    assert table.available_size == 3


def test_taking_a_row_when_none_is_free_is_refused() -> None:
    table = make_table(1)
    table.allocate()
    with pytest.raises(RuntimeError):
        table.allocate()


def test_written_ids_stand_in_their_row_only() -> None:
    table = make_table(3)
    table.write_tokens(1, 2, torch.tensor([7, 8, 9], dtype=torch.int32))
    assert table.token_pool[1, :6].tolist() == [0, 0, 7, 8, 9, 0]
    assert (table.token_pool[[0, 2, 3]] == 0).all()
