"""The page table every engine starts with."""

from __future__ import annotations

from math import lcm

import torch

from ..utils import align_ceil


def make_page_table(
    max_running_req: int, max_seq_len: int, num_pages: int, page_size: int, device: torch.device
) -> torch.Tensor:
    """(max_running_req + 1, W) int32 zeros, W = ``max_seq_len`` rounded up to 32 and to P.

    The last row is the dummy request's: each entry is N·P, the first slot of the dummy page.
    """
    sizes = {"max_running_req": max_running_req, "max_seq_len": max_seq_len}
    for name, size in (sizes | {"num_pages": num_pages, "page_size": page_size}).items():
        if size < 1:
            raise ValueError(f"{name} {size} is not allowed: 1 or more.")
    width = align_ceil(max_seq_len, lcm(32, page_size))
    table = torch.zeros((max_running_req + 1, width), dtype=torch.int32, device=device)
    table[max_running_req] = num_pages * page_size
    return table
