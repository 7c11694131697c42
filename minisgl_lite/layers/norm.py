"""Root-mean-square normalisation (mini-sglang: layers/norm.py)."""

from __future__ import annotations

import torch

from .base import BaseOP


class RMSNorm(BaseOP):
    """x / sqrt(mean(x²) + eps) · weight over the last dimension.

    Computed in fp32 and cast back before the weight is applied, as transformers does.
    """

    def __init__(self, size: int, eps: float) -> None:
        self.eps = eps
        self.weight = torch.empty(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., size) -> the same shape and dtype; ``x`` is left as it is."""
        wide = x.float()
        variance = wide.pow(2).mean(-1, keepdim=True)
        return self.weight * (wide * torch.rsqrt(variance + self.eps)).to(x.dtype)


class RMSNormFused(RMSNorm):
    """The residual addition and the norm that follows it, as one op."""

    def forward(  # type: ignore[override]
        self, x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(T, size) -> (norm(x + residual), x + residual).

        The sum is written into ``residual``, which is also what is returned. Without a residual
        ``x`` itself becomes the residual and is not changed.
        """
        residual = x if residual is None else residual.add_(x)
        return super().forward(residual), residual
