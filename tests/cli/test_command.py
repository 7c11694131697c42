"""The command as a user starts it: another process, its pipes and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

TIMEOUT = 120


def command(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "minisgl_lite", *args],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | env,
    )


def test_the_real_model_answers_a_question() -> None:
    ran = command("generate", "What is the capital of France?", "--max-tokens", "20")
    assert (ran.returncode, ran.stderr) == (0, "")
    text, counts = ran.stdout.splitlines()
    assert text == "The capital of France is Paris."
    assert counts.startswith("7 tokens, 3 of 512 pages used at most, 0 prefix tokens reused, ")


def test_raw_prompts_are_continued() -> None:
    ran = command("generate", "The capital of France is", "--raw", "--max-tokens", "2")
    assert ran.stdout.splitlines()[0].strip().startswith("Paris")


def test_bad_input_exits_with_2_and_no_traceback() -> None:
    ran = command("generate", "x", "--temperature", "-1")
    assert ran.returncode == 2 and ran.stdout == ""
    assert ran.stderr.count("\n") == 1 and "temperature -1.0" in ran.stderr


def test_a_reader_that_leaves_is_no_crash() -> None:
    script = f"{sys.executable} -m minisgl_lite generate a b c --model tiny | head -n 1"
    ran = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    assert ran.stdout == "[1] a\n" and ran.stderr == ""


def test_a_narrow_terminal_encoding_is_no_crash() -> None:
    ran = command("generate", "é" * 3, "b", "--model", "tiny", PYTHONIOENCODING="ascii")
    assert ran.returncode == 0
    assert ran.stdout.splitlines()[0] == "[1] ???"


@pytest.mark.parametrize("args", [["--help"], ["generate", "--help"]])
def test_help_is_there(args: list[str]) -> None:
    ran = command(*args)
    assert ran.returncode == 0 and "generate" in ran.stdout
