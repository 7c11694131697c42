"""What an engine is built from (mini-sglang: engine/config.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch

from ..distributed import DistributedInfo
from ..distributed.info import SINGLE

DEFAULT_CPU_TOKENS = 8192
"""Slots of the pool on a CPU when ``num_page_override`` is not given."""


@dataclass
class EngineConfig:
    """Settings of one engine; ``model_path`` as ``minisgl_lite.models.open_model`` takes it.

    ``num_page_override``: pages the scheduler manages; without it, ``memory_ratio`` of the free
    device memory on CUDA, 8,192 tokens on a CPU. ``cuda_graph_bs``: decode batch sizes to pad to,
    captured where the attention backend can be (on a CPU: ``tape.py``), else only padded. When it
    is None, ``cuda_graph_max_bs`` asks for the usual sizes up to that one: 1, 2, 4 and the
    multiples of 8. Both None, or an empty list: no padding.
    """

    model_path: str = "smollm2"
    tp_info: DistributedInfo = field(default=SINGLE)
    dtype: torch.dtype = torch.float32
    max_running_req: int = 256
    attention_backend: str = "auto"
    cuda_graph_bs: list[int] | None = None
    cuda_graph_max_bs: int | None = None
    page_size: int = 1
    memory_ratio: float = 0.9
    max_seq_len_override: int | None = None
    num_page_override: int | None = None
    device: str | None = None
    allow_download: bool = False

    WHOLE_NUMBERS: ClassVar[tuple[str, ...]] = (
        "max_running_req",
        "page_size",
        "max_seq_len_override",
        "num_page_override",
    )

    def validate(self) -> None:
        """Raises ValueError naming the first setting that is not allowed."""
        for name in self.WHOLE_NUMBERS:
            value = getattr(self, name)
            if value is None and name.endswith("_override"):
                continue
            if not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(f"{name} {value!r} is not allowed: a whole number is needed.")
            if value < 1:
                raise ValueError(f"{name} {value} is not allowed: 1 or more.")
        if not isinstance(self.dtype, torch.dtype) or not self.dtype.is_floating_point:
            raise ValueError(f"dtype {self.dtype!r} is not allowed: a floating-point torch.dtype.")
        ratio = self.memory_ratio
        if not isinstance(ratio, int | float) or not 0.0 < ratio <= 1.0:
            raise ValueError(f"memory_ratio {ratio!r} is not allowed: above 0, at most 1.")
        if not isinstance(self.attention_backend, str):
            raise ValueError(f"attention_backend {self.attention_backend!r:.60} is not allowed.")
        largest = self.cuda_graph_max_bs
        if largest is not None and (type(largest) is not int or largest < 0):
            raise ValueError(
                f"cuda_graph_max_bs {largest!r} is not allowed: a whole number; 0 pads nothing."
            )
        sizes = self.cuda_graph_bs or []
        if not isinstance(sizes, list | tuple) or not all(
            type(size) is int and 1 <= size <= self.max_running_req for size in sizes
        ):
            raise ValueError(
                f"cuda_graph_bs {self.cuda_graph_bs} is not allowed:"
                f" sizes from 1 to max_running_req, {self.max_running_req}."
            )
