from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Places = tuple[torch.Tensor, torch.Tensor]


def reference(
    cached_lens: list[int], device_lens: list[int], starts: torch.Tensor, page_size: int
) -> Places:
    positions, out_loc = [], []
    for row, cached_len, device_len in zip(starts.tolist(), cached_lens, device_lens, strict=True):
        for position in range(cached_len, device_len):
            positions.append(position)
            out_loc.append(row[position // page_size] + position % page_size)
    return torch.tensor(positions, dtype=torch.int32), torch.tensor(out_loc, dtype=torch.int32)


def without_loops(
    cached_lens: list[int], device_lens: list[int], starts: torch.Tensor, page_size: int
) -> Places:
    """All tokens at once: the row of each by repetition, its position by counting on."""
    cached = torch.tensor(cached_lens)
    counts = torch.tensor(device_lens) - cached
    rows = torch.arange(len(counts)).repeat_interleave(counts)
    before = (counts.cumsum(0) - counts)[rows]
    positions = torch.arange(int(counts.sum())) - before + cached[rows]
    slots = starts[rows, positions // page_size] + positions % page_size
    return positions.int(), slots.int()


def by_rows(change: Callable[..., tuple[int, int]]) -> Callable[..., Places]:
    def answer(
        cached_lens: list[int], device_lens: list[int], starts: torch.Tensor, page_size: int
    ) -> Places:
        spans = [change(c, d, page_size) for c, d in zip(cached_lens, device_lens, strict=True)]
        return reference([c for c, _ in spans], [d for _, d in spans], starts, page_size)

    return answer


def whole_context(*args: Any) -> Places:
    return by_rows(lambda c, d, p: (0, d))(*args)


def one_for_each_request(*args: Any) -> Places:
    return by_rows(lambda c, d, p: (d - 1, d))(*args)


def one_too_late(*args: Any) -> Places:
    return by_rows(lambda c, d, p: (c + 1, d))(*args)


def whole_pages(*args: Any) -> Places:
    return by_rows(lambda c, d, p: (c, -(-d // p) * p))(*args)


def counted_from_zero(
    cached_lens: list[int], device_lens: list[int], starts: torch.Tensor, page_size: int
) -> Places:
    _, out_loc = reference(cached_lens, device_lens, starts, page_size)
    lengths = [d - c for c, d in zip(cached_lens, device_lens, strict=True)]
    return reference([0] * len(lengths), lengths, starts, page_size)[0], out_loc


def longest_first(
    cached_lens: list[int], device_lens: list[int], starts: torch.Tensor, page_size: int
) -> Places:
    order = sorted(range(len(cached_lens)), key=lambda i: cached_lens[i] - device_lens[i])
    cached, device = [cached_lens[i] for i in order], [device_lens[i] for i in order]
    return reference(cached, device, starts[order], page_size)


def page_ids(
    cached_lens: list[int], device_lens: list[int], starts: torch.Tensor, page_size: int
) -> Places:
    return reference(cached_lens, device_lens, starts * page_size, page_size)


def pages_side_by_side(
    cached_lens: list[int], device_lens: list[int], starts: torch.Tensor, page_size: int
) -> Places:
    steps = torch.arange(starts.shape[1], dtype=torch.int32) * page_size
    return reference(cached_lens, device_lens, starts[:, :1] + steps, page_size)


def pages_sorted(
    cached_lens: list[int], device_lens: list[int], starts: torch.Tensor, page_size: int
) -> Places:
    high = torch.where(starts < 0, 10_000, starts)
    return reference(cached_lens, device_lens, high.sort(1).values, page_size)


def pages_of_one(
    cached_lens: list[int], device_lens: list[int], starts: torch.Tensor, page_size: int
) -> Places:
    """Takes the table for one with an entry per position."""
    wide = starts.repeat(1, page_size)
    return reference(cached_lens, device_lens, wide, 1)


def first_row_for_all(
    cached_lens: list[int], device_lens: list[int], starts: torch.Tensor, page_size: int
) -> Places:
    return reference(cached_lens, device_lens, starts[:1].expand(len(starts), -1), page_size)


def offset_forgotten(
    cached_lens: list[int], device_lens: list[int], starts: torch.Tensor, page_size: int
) -> Places:
    positions, _ = reference(cached_lens, device_lens, starts, page_size)
    out_loc = reference(cached_lens, device_lens, starts, page_size)[1]
    return positions, out_loc - positions % page_size


def int64(
    cached_lens: list[int], device_lens: list[int], starts: torch.Tensor, page_size: int
) -> Places:
    positions, out_loc = reference(cached_lens, device_lens, starts, page_size)
    return positions, out_loc.long()


def out_loc_alone(*args: Any) -> torch.Tensor:
    return reference(*args)[1]


RIGHT = [reference, without_loops]
WRONG = {
    whole_context: "entries; the step computes",
    one_for_each_request: "entries; the step computes",
    one_too_late: "positions has 0 entries; the step computes 1 tokens",
    whole_pages: "entries; the step computes",
    counted_from_zero: "positions: token 0 is 0",
    longest_first: "positions: token 0 is",
    page_ids: "out_loc: token",
    pages_side_by_side: "out_loc: token",
    pages_sorted: "out_loc: token",
    pages_of_one: "out_loc: token 1 is",
    first_row_for_all: "out_loc: token",
    offset_forgotten: "out_loc: token 1 is",
    int64: "out_loc, returned torch.int64; torch.int32 is wanted",
    out_loc_alone: "should return two tensors, positions and out_loc",
}
