"""Join the other ranks that ``torchrun`` started."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from .info import SINGLE, DistributedInfo


def init_from_env() -> DistributedInfo:
    """This process's rank as ``torchrun`` set it, the process group up; without it, rank 0 of 1.

    gloo on a CPU, NCCL on CUDA, where the rank's own device becomes current.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return SINGLE
    if not dist.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return DistributedInfo(dist.get_rank(), size)


def destroy_distributed() -> None:
    """Leave the process group, if one was joined."""
    if dist.is_initialized():
        dist.destroy_process_group()
