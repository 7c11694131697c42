"""What ``minisgl-lite generate`` takes at its peak, asked of the system after a run of its own."""

from __future__ import annotations

import subprocess
import sys
from math import prod

from ..engine.config import DEFAULT_CPU_TOKENS
from ..models import open_model
from ..models.weight import checkpoint_layout
from .timing import Measured

ALLOWANCE_MB = 400
"""Beyond weights and pool: Python, torch, the file itself, and what a step needs on its way."""

_RUN = """
import sys
from minisgl_lite.cli import main
code = main(["generate", "--model", sys.argv[1], "--max-tokens", "32", "The capital of France is"])
with open("/proc/self/status") as status:
    print(next(line for line in status if line.startswith("VmHWM")).split()[1])
sys.exit(code)
"""


def of_generate(model: str) -> Measured:
    """MB: the peak, and what is allowed: weights and pool in fp32, and ``ALLOWANCE_MB``.

    NOTE: ``getrusage`` would tell the peak of the process that started it, where that was higher.
    """
    command = [sys.executable, "-c", _RUN, model]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak = int(done.stdout.split()[-1]) * 1024 / 1e6  # Linux counts in KiB
    config = open_model(model).whole_config
    weights = sum(prod(part.shape) for _, parts in checkpoint_layout(config) for part in parts)
    per_token = 2 * config.num_layers * config.num_kv_heads * config.head_dim
    allowed = 4 * (weights + DEFAULT_CPU_TOKENS * per_token) / 1e6 + ALLOWANCE_MB
    return Measured("memory of generate", "MB", {"peak": [peak], "allowed": [allowed]})


__all__ = ["ALLOWANCE_MB", "of_generate"]
