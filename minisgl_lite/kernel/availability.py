"""Whether Triton can be used. Nothing here imports it: the package itself needs torch alone."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec


@cache
def triton_is_installed() -> bool:
    """Triton comes with torch's CUDA builds for Linux; other builds may lack it."""
    return find_spec("triton") is not None


def triton_is_interpreted() -> bool:
    """Whether Triton kernels run in Python on CPU tensors: slow, but the same code.

    NOTE: Triton reads the variable when a kernel's module is imported, not when it is launched.
    """
    return os.environ.get("TRITON_INTERPRET") == "1"
