"""Runs the tests in ``interpreted/``, where Triton's kernels are Python: no GPU is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "interpreted"
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("test_*.py")))
def test_kernels_equal_their_twins_in_the_interpreter(name: str) -> None:
    # NaN marks what must not be read; numpy may warn of it.
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{FOLDER}/{name}.py"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=1500,
    )
    last_lines = "\n".join((done.stdout + done.stderr).splitlines()[-60:])
    assert done.returncode == 0, last_lines
    assert " passed" in done.stdout and "failed" not in done.stdout
