from __future__ import annotations

import torch


def reference(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    column = torch.tensor(starts, dtype=torch.int32).unsqueeze(1)
    return (column + torch.arange(page_size, dtype=torch.int32)).flatten()[:count]


def by_division(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    """Asks for each token where it is, instead of laying out pages."""
    slots = [starts[token // page_size] + token % page_size for token in range(count)]
    return torch.tensor(slots, dtype=torch.int32)


def page_numbers(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    return reference([start * page_size for start in starts], page_size, count)


def one_slot_per_page(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    return torch.tensor(starts, dtype=torch.int32)[:count]


def adjacent_pages(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    return torch.arange(starts[0], starts[0] + count, dtype=torch.int32)


def sorted_pages(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    return reference(sorted(starts), page_size, count)


def whole_pages_only(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    return reference(starts, page_size, count // page_size * page_size)


def column_by_column(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    row = torch.tensor(starts, dtype=torch.int32)
    return (row + torch.arange(page_size, dtype=torch.int32).unsqueeze(1)).flatten()[:count]


def int64(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    return reference(starts, page_size, count).long()


def pages_of_four(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    return reference(starts, 4, count)


RIGHT = [reference, by_division]
WRONG = {
    page_numbers: "token 0 is",
    one_slot_per_page: "token 1 is",
    adjacent_pages: "token 1 is",
    sorted_pages: "token 0 is",
    whole_pages_only: "shape",
    column_by_column: "token 1 is",
    int64: "torch.int64; torch.int32 is wanted",
    pages_of_four: "token 1 is",
}
