"""Tensor parallel from the command line: two processes print what one prints."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from minisgl_lite.cli import main

PROMPTS = ["What is the capital of France?", "Name a colour."]


def text_above_counts(out: str) -> list[str]:
    assert "tokens/s" in out.splitlines()[-1]
    return out.splitlines()[:-1]


def two_ranks(*args: str) -> list[str]:
    """What ``generate`` prints above its counts, run by torchrun as two processes."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    ran = subprocess.run(
        [*launch, "-m", "minisgl_lite", "generate", *PROMPTS, *args],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    return text_above_counts(ran.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        ("--model", "tiny", "--max-tokens", "24", "--page-size", "4", "--temperature", "20"),
        ("--max-tokens", "12"),  # 9 query and 3 KV heads, which two ranks can't share as they are
    ],
    ids=["tiny-sampled", "smollm2"],
)
def test_two_ranks_print_what_one_prints(
    args: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", *PROMPTS, *args, "--seed", "0"]) == 0
    alone = text_above_counts(capsys.readouterr().out)
    assert two_ranks(*args) == alone
