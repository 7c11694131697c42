"""These tests run in a process of their own, started by ``tests/kernel/test_interpreter.py``.

Triton decides between compiling and interpreting when a kernel's module is imported, once for all.
"""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["test_*.py"]
