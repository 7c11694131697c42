"""`import minisgl_lite` needs torch alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, torch
before = set(sys.modules)
import {module}
new = {{name.split(".")[0] for name in set(sys.modules) - before}}
print(*sorted(new - set(sys.stdlib_module_names) - {{"minisgl_lite"}}))
"""


@pytest.mark.parametrize(
    "module",
    ["minisgl_lite", "minisgl_lite.trace", "minisgl_lite.viz", "minisgl_lite.toy"],
)
def test_importing_it_imports_no_other_package(module: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=module)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == []
