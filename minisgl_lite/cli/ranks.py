"""Tensor parallel from the command line: ``torchrun --nproc-per-node 2 -m minisgl_lite …``."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from minisgl_lite.distributed import DistributedInfo
from minisgl_lite.distributed.info import SINGLE


def join_ranks() -> DistributedInfo:
    """Meet the other processes that torchrun started, if it did; says which rank this is.

    Every rank runs the same requests in the same order and draws the same tokens.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return SINGLE
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if not dist.is_initialized():
        dist.init_process_group("nccl" if cuda else "gloo")
    return DistributedInfo(dist.get_rank(), dist.get_world_size())


def leave_ranks(info: DistributedInfo) -> None:
    """Part from the other processes, so that none is left waiting."""
    if info != SINGLE:
        dist.destroy_process_group()


__all__ = ["SINGLE", "join_ranks", "leave_ranks"]
