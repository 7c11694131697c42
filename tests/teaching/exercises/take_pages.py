from __future__ import annotations

import torch


def reference(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    first, last = -(-cached_len // page_size), -(-device_len // page_size)
    if last - first > len(free):
        return False
    for page in range(first, last):
        start = free.pop(0)
        slots = torch.arange(start, start + page_size, dtype=row.dtype)
        row[page * page_size : (page + 1) * page_size] = slots
    return True


def cell_by_cell(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    """Asks each new position whether a page begins there."""
    begins = [p for p in range(cached_len, device_len) if p % page_size == 0]
    if len(begins) > len(free):
        return False
    for position, start in zip(begins, free, strict=False):
        for offset in range(page_size):
            row[position + offset] = start + offset
    del free[: len(begins)]
    return True


def rounded_down(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    """Takes the page again on which the last cached token stands."""
    return reference(row, free, cached_len // page_size * page_size, device_len, page_size)


def last_page_forgotten(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    return reference(row, free, cached_len, device_len // page_size * page_size, page_size)


def a_page_for_every_token(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    return reference(row, free, cached_len * page_size, device_len * page_size, page_size)


def always_at_least_one(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    """A decode step takes a page, whether there is room or not."""
    first, last = -(-cached_len // page_size), -(-device_len // page_size)
    return reference(row, free, first * page_size, max(last, first + 1) * page_size, page_size)


def from_the_beginning(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    return reference(row, free, 0, device_len, page_size)


def from_the_tail(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    free.reverse()
    done = reference(row, free, cached_len, device_len, page_size)
    free.reverse()
    return done


def lowest_first(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    free.sort()
    return reference(row, free, cached_len, device_len, page_size)


def page_numbers(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    copy = [start * page_size for start in free]
    done = reference(row, copy, cached_len, device_len, page_size)
    del free[: len(free) - len(copy)]
    return done


def starts_only(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    """One cell per page: right for P = 1."""
    first, last = -(-cached_len // page_size), -(-device_len // page_size)
    if last - first > len(free):
        return False
    for page in range(first, last):
        row[page * page_size] = free.pop(0)
    return True


def not_behind_device_len(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    behind = row[device_len:].clone()
    done = reference(row, free, cached_len, device_len, page_size)
    row[device_len:] = behind
    return done


def takes_what_there_is(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    """Finds only at the end that pages are missing."""
    first, last = -(-cached_len // page_size), -(-device_len // page_size)
    for page in range(first, last):
        if not free:
            return False
        reference(row, free, page * page_size, (page + 1) * page_size, page_size)
    return True


def needs_one_to_spare(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    first, last = -(-cached_len // page_size), -(-device_len // page_size)
    if last - first >= len(free):
        return False
    return reference(row, free, cached_len, device_len, page_size)


def a_list_of_its_own(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> bool:
    return reference(row, list(free), cached_len, device_len, page_size)


def no_answer(
    row: torch.Tensor, free: list[int], cached_len: int, device_len: int, page_size: int
) -> None:
    reference(row, free, cached_len, device_len, page_size)


RIGHT = [reference, cell_by_cell]
WRONG = {
    rounded_down: "the step takes",
    last_page_forgotten: "it should hold",
    a_page_for_every_token: "the step takes",
    always_at_least_one: "the step takes",
    from_the_beginning: "the step takes",
    from_the_tail: "it should hold",
    lowest_first: "it should hold",
    page_numbers: "it should hold",
    starts_only: "position 1 holds",
    not_behind_device_len: "it should hold",
    takes_what_there_is: "returned False, and yet changed free or the row",
    needs_one_to_spare: "returned False; the step takes",
    a_list_of_its_own: "in free; it should be",
    no_answer: "returned None; True or False is wanted",
}
