"""Root-mean-square normalisation (mini-sglang: layers/norm.py)."""

from __future__ import annotations

import torch

from minisgl_lite.kernel.rows import rmsnorm

from .base import BaseOP


class RMSNorm(BaseOP):
    """x / sqrt(mean(x²) + eps) · weight over the last dimension."""

    def __init__(self, size: int, eps: float) -> None:
        self.eps = eps
        self.weight = torch.empty(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., size) -> the same shape and dtype; ``x`` is left as it is."""
        return rmsnorm(x, self.weight, self.eps)


class RMSNormFused(RMSNorm):
    """The residual addition and the norm that follows it, as one op."""

    def forward(  # type: ignore[override]
        self, x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(T, size) -> (norm(x + residual), x + residual).

        The sum is written into ``residual``, which is also what is returned. Without a residual
        ``x`` itself becomes the residual and is not changed.
        """
        if residual is None:
            return rmsnorm(x, self.weight, self.eps), x
        return rmsnorm(x.to(residual.dtype), self.weight, self.eps, residual), residual
