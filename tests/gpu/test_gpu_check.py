from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.gpu import engines
from tests.gpu.plan import dry_plan
from tests.gpu.report import BUDGET, Report, attempt

CHECK = Path(__file__).with_name("check.py")


def run_check(*arguments: str, hide_gpu: bool = False) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    if hide_gpu:
        environ["CUDA_VISIBLE_DEVICES"] = ""
    return subprocess.run(
        [sys.executable, str(CHECK), *arguments],
        capture_output=True,
        text=True,
        env=environ,
        timeout=1500,
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here")
def test_everything_is_right_on_this_gpu() -> None:
    done = run_check()
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_without_a_gpu_it_says_so() -> None:
    done = run_check(hide_gpu=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "no NVIDIA GPU here: nothing was checked, nothing was measured.\n"


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_a_dry_run_goes_through_every_part() -> None:
    """So that the first minute on a GPU is not spent on a misspelt name."""
    done = run_check("--dry-run", "--tune", hide_gpu=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "WRONG" not in done.stdout
    for part in ("which measures nothing", "store_cache", "decode attention"):
        assert part in done.stdout, part
    for way in ("eager, overlap", "graphs, normal", "graphs, overlap"):
        assert f"fp32, {way}" in done.stdout, way
    assert "bf16, graphs, overlap, 2 requests" in done.stdout
    assert "GB/s" not in done.stdout and "tokens/s" not in done.stdout  # no figure from a dry run


def wrong_part() -> None:
    raise RuntimeError("planted")


def test_a_part_that_fails_is_reported_and_the_others_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = Report(dry_plan())
    done: list[str] = []
    attempt(report, "one", wrong_part)
    attempt(report, "two", lambda: done.append("two"))
    report.verdict(False, "a kernel is off")
    assert done == ["two"]
    assert report.wrong == ["one: RuntimeError: planted", "a kernel is off"]
    assert capsys.readouterr().out.count("WRONG") == 2


def test_no_part_begins_when_time_is_up() -> None:
    report = Report(replace(dry_plan(), device=torch.device("cuda")))
    report.started -= BUDGET + 1
    attempt(report, "late", wrong_part)
    assert report.left_out == ["late"] and report.wrong == []


def test_differing_tokens_are_found_with_their_margin() -> None:
    one = engines.Run([[1, 2, 3], [4, 5, 6]], {0: [0.5, 0.4, 0.3], 1: [0.2, 0.1, 0.9]}, 1.0, 0.0)
    other = one._replace(tokens=[[1, 2, 3], [4, 7, 8]])
    assert engines.first_differences(one, one) == []
    assert engines.first_differences(one, other) == [(1, 1, 0.1)]
