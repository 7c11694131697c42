"""What a layer does between its products, row by row, on a CPU (mini-sglang takes these from
flashinfer: rmsnorm, fused_add_rmsnorm, silu_and_mul, rotary embedding).

One pass of compiled code each, where a compiler is there, the numbers are fp32 and the shapes fit;
else the torch twin, which every device runs, and which says what does not fit.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F

from .compiled import launch, load_library

INDEX_DTYPES = (torch.int32, torch.int64)


@cache
def compiled_rows() -> Any:
    """The library made of ``rows.c``; None where it can't be had."""
    return load_library("rows.c")


def rmsnorm(
    x: torch.Tensor, weight: torch.Tensor, eps: float, residual: torch.Tensor | None = None
) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) · weight over the last dimension.

    Args:
        x: (..., size), left as it is.
        weight: (size,).
        residual: of the shape of ``x``; the sum of both, which is written into it, is then what is
            normalised.
    Returns:
        A new tensor like the one that was normalised.
    """
    shapes_fit = weight.shape == x.shape[-1:] and (residual is None or residual.shape == x.shape)
    if shapes_fit and _fits(x, weight) and (residual is None or _fits(residual)):
        size = x.shape[-1]
        y = torch.empty_like(x)
        launch(
            compiled_rows().rmsnorm,
            x,
            residual,
            weight,
            y,
            x.numel() // size,
            size,
            float(eps),
            torch.get_num_threads(),
        )
        return y
    return rmsnorm_torch(x if residual is None else residual.add_(x), weight, eps)


def rmsnorm_torch(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Computed in fp32 and cast back before the weight is applied, as transformers does."""
    wide = x.float()
    variance = wide.pow(2).mean(-1, keepdim=True)
    return weight * (wide * torch.rsqrt(variance + eps)).to(x.dtype)


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """(T, 2·I), gate before up -> silu(gate) · up, (T, I)."""
    if x.dim() != 2 or x.shape[1] % 2 != 0 or not _fits(x):
        return silu_and_mul_torch(x)
    rows, twice = x.shape
    y = x.new_empty(rows, twice // 2)
    launch(compiled_rows().silu_and_mul, x, y, rows, twice // 2, torch.get_num_threads())
    return y


def silu_and_mul_torch(x: torch.Tensor) -> torch.Tensor:
    """The twin of ``silu_and_mul``."""
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)


def rotate(x: torch.Tensor, table: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Each pair (x_i, x_{i + D/2}) of each head, turned by the angle of its token's position.

    Args:
        x: (T, H, D), left as it is; heads contiguous, rows with any stride.
        table: (positions, 2, D) fp32: cos, then sin with the sign that each half takes.
        positions: (T,) int32 or int64.
    Returns:
        (T, H, D), a new tensor.
    Raises:
        IndexError: a position outside the table.
    """
    rows, heads, dim = x.shape
    shapes_fit = table.shape[1:] == (2, dim) and positions.shape == (rows,) and dim % 2 == 0
    fits = _fits(table) and _is_plain(x) and x.stride()[1:] == (dim, 1)
    known = positions.is_cpu and positions.is_contiguous() and positions.dtype in INDEX_DTYPES
    if not (shapes_fit and fits and known):
        return rotate_torch(x, table, positions)
    y = torch.empty((rows, heads, dim))
    launch(
        compiled_rows().rotate,
        x,
        table,
        positions,
        positions.dtype == torch.int64,
        y,
        rows,
        heads,
        dim,
        x.stride(0),
        table.shape[0],
        torch.get_num_threads(),
        refuse=lambda row: IndexError(
            f"position {int(positions[row - 1])} is outside the table's [0, {table.shape[0]})."
        ),
    )
    return y


def rotate_torch(x: torch.Tensor, table: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """The twin of ``rotate``: x · cos + (halves of x swapped) · sin."""
    cos, sin = table[positions].to(x.dtype).split(1, dim=1)  # (T, 1, D) each
    return x * cos + x.roll(x.shape[-1] // 2, dims=-1) * sin


def cast_heads(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """``x.to(dtype)`` for (T, H, D) with heads contiguous and rows of any stride."""
    rows, heads, dim = x.shape
    from_wide = dtype == torch.bfloat16 and _is_plain(x) and x.stride()[1:] == (dim, 1)
    if not from_wide or compiled_rows() is None:
        return x.to(dtype)
    y = torch.empty((rows, heads, dim), dtype=dtype)
    threads = torch.get_num_threads()
    launch(compiled_rows().to_bf16, x, y, rows, heads * dim, x.stride(0), threads)
    return y


def _is_plain(*tensors: torch.Tensor) -> bool:
    return all([t.dtype == torch.float32 and t.is_cpu for t in tensors])


def _fits(*tensors: torch.Tensor) -> bool:
    """Whether the compiled functions take these tensors."""
    whole = all([t.is_contiguous() for t in tensors])
    return whole and _is_plain(*tensors) and compiled_rows() is not None


__all__ = [
    "cast_heads",
    "compiled_rows",
    "rmsnorm",
    "rmsnorm_torch",
    "rotate",
    "rotate_torch",
    "silu_and_mul",
    "silu_and_mul_torch",
]
