"""Linear layers, cut for tensor parallel (mini-sglang: layers/linear.py).

A column-parallel layer holds some of the outputs on each rank and needs no exchange. A
row-parallel layer holds some of the inputs; the ranks' partial sums are added up. One of each
makes a block with a single all-reduce::

    x ── qkv / gate_up (columns) ── heads / MLP of this rank ── o / down (rows) ── all-reduce ──
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from minisgl_lite.distributed import DistributedCommunicator, get_tp_info
from minisgl_lite.utils import div_even

from .base import BaseOP


class _LinearTPImpl(BaseOP):
    """Holds weight (local_osize, local_isize) and bias (local_osize) or None.

    ``product``: another way to multiply, which ``fast_linear.make_fast`` found for this machine.
    """

    product: Callable[[torch.Tensor], torch.Tensor] | None = None

    def __init__(
        self, full_isize: int, full_osize: int, local_isize: int, local_osize: int, has_bias: bool
    ) -> None:
        self.full_input_size = full_isize
        self.full_output_size = full_osize
        self.local_input_size = local_isize
        self.local_output_size = local_osize
        self.weight = torch.empty(local_osize, local_isize)
        self.bias = torch.empty(local_osize) if has_bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(T, local_isize) -> (T, local_osize)."""
        if self.product is not None:
            return self.product(x)
        return F.linear(x, self.weight, self.bias)


class LinearReplicated(_LinearTPImpl):
    """The whole matrix on every rank."""

    def __init__(self, input_size: int, output_size: int, has_bias: bool) -> None:
        super().__init__(input_size, output_size, input_size, output_size, has_bias)


class LinearColParallelMerged(_LinearTPImpl):
    """Several matrices of one input, stacked; each rank holds its share of every one of them."""

    def __init__(self, input_size: int, output_sizes: list[int], has_bias: bool) -> None:
        size = get_tp_info().size
        local_osize = sum(div_even(osize, size) for osize in output_sizes)
        super().__init__(input_size, sum(output_sizes), input_size, local_osize, has_bias)


class LinearQKVMerged(_LinearTPImpl):
    """The q, k and v projections stacked: the local query heads, then KV heads twice.

    With fewer KV heads than ranks each rank holds one, the same as some of its neighbours.
    """

    def __init__(
        self, hidden_size: int, head_dim: int, num_qo_heads: int, num_kv_heads: int, has_bias: bool
    ) -> None:
        size = get_tp_info().size
        local_qo = div_even(num_qo_heads, size)
        local_kv = div_even(num_kv_heads, size, allow_replicate=True)
        full_osize = (num_qo_heads + 2 * num_kv_heads) * head_dim
        local_osize = (local_qo + 2 * local_kv) * head_dim
        super().__init__(hidden_size, full_osize, hidden_size, local_osize, has_bias)


class LinearRowParallel(_LinearTPImpl):
    """Each rank holds its share of the inputs; ``forward`` returns the sum over ranks."""

    def __init__(self, input_size: int, output_size: int, has_bias: bool) -> None:
        self._tp_size = get_tp_info().size
        self._comm = DistributedCommunicator()
        local_isize = div_even(input_size, self._tp_size)
        super().__init__(input_size, output_size, local_isize, output_size, has_bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(T, local_isize) -> (T, output_size), the same on every rank."""
        if self._tp_size == 1:
            return super().forward(x)
        y = self._comm.all_reduce(F.linear(x, self.weight))
        # The bias comes after the sum: every rank holds the whole of it, and it counts once.
        return y if self.bias is None else y + self.bias


class LinearOProj(LinearRowParallel):
    """The output projection of attention: its inputs are the heads of this rank."""
