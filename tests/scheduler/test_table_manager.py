from __future__ import annotations

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
