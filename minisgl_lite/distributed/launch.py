"""Join the other ranks that ``torchrun`` started."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from .info import SINGLE, DistributedInfo


def init_from_env(device: str | None = None) -> DistributedInfo:
    """This process's rank as ``torchrun`` set it, the process group up; without it, rank 0 of 1.

    ``device``: where the engine will run, as ``EngineConfig.device``; None is CUDA where there is
    one. gloo on a CPU; on CUDA NCCL, and the rank's own device becomes current.

    Raises:
        ValueError: an environment that torchrun did not set, or not whole.
    """
    size = os.environ.get("WORLD_SIZE", "1")
    if not size.isascii() or not size.isdigit() or int(size) < 1:
        raise ValueError(f"WORLD_SIZE={size!r} in the environment is no number of processes.")
    if int(size) == 1:
        return SINGLE
    if not dist.is_initialized():
        on_cuda = torch.cuda.is_available() and (device is None or str(device).startswith("cuda"))
        if on_cuda:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("nccl" if on_cuda else "gloo")
    return DistributedInfo(dist.get_rank(), dist.get_world_size())


def destroy_distributed() -> None:
    """Leave the process group, if one was joined, so that no other rank is left waiting."""
    if dist.is_initialized():
        dist.destroy_process_group()
