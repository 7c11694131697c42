"""How a process joins the ranks that torchrun started: which backend, which device, or an error."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
import torch.distributed as dist

from minisgl_lite.distributed import DistributedInfo, destroy_distributed, init_from_env
from minisgl_lite.distributed.info import SINGLE


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is asked of torch, as rank 1 of 2 on a machine with two GPUs."""
    asked: list[Any] = []
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: asked.append(number))
    monkeypatch.setattr(dist, "init_process_group", lambda backend: asked.append(backend))
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    return asked


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_engines_on_a_cpu_meet_over_gloo_though_a_gpu_is_there(
    joined: list[Any], device: str
) -> None:
    assert init_from_env(device) == DistributedInfo(1, 2)
    assert joined == ["gloo"]


@pytest.mark.parametrize("device", [None, "cuda", "cuda:1"])
def test_engines_on_gpus_meet_over_nccl_each_with_its_own_device(
    joined: list[Any], device: str | None
) -> None:
    assert init_from_env(device) == DistributedInfo(1, 2)
    assert joined == [1, "nccl"]


@pytest.mark.parametrize("device", [None, "cuda"])
def test_without_a_gpu_it_is_gloo(
    joined: list[Any], device: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that wants CUDA all the same says itself that there is none."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert init_from_env(device) == DistributedInfo(1, 2)
    assert joined == ["gloo"]


def test_a_group_that_is_up_is_taken_as_it_is(
    joined: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    assert init_from_env() == DistributedInfo(1, 2)
    assert joined == []


def test_a_process_alone_is_rank_0_of_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert init_from_env() == init_from_env("cpu") == SINGLE
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert init_from_env() == SINGLE
    destroy_distributed()
    assert not dist.is_initialized()


@pytest.mark.parametrize("size", ["", "0", "-2", "two", "2.0", "²"])
def test_a_number_of_processes_that_is_none_is_named(
    size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", size)
    with pytest.raises(ValueError, match=r"WORLD_SIZE=.* is no number of processes"):
        init_from_env()


def test_an_environment_that_is_not_whole_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="RANK"):
        init_from_env("cpu")
    assert "RANK" not in os.environ and not dist.is_initialized()
