"""The gated activations: the gate comes first."""

from __future__ import annotations

import torch

from minisgl_lite.layers import gelu_and_mul, silu_and_mul


def test_silu_and_mul_gates_the_second_half_with_the_first() -> None:
    x = torch.tensor([[0.0, 1.0, 5.0, 2.0]])
    gate = torch.tensor(1.0) / (1 + torch.exp(torch.tensor(-1.0)))
    torch.testing.assert_close(silu_and_mul(x), torch.tensor([[0.0, 2.0]]) * gate)


def test_gelu_is_the_exact_one() -> None:
    x = torch.tensor([[1.0, 3.0]])
    exact = 0.5 * (1 + torch.erf(torch.tensor(1.0) / 2**0.5))
    torch.testing.assert_close(gelu_and_mul(x), torch.tensor([[3.0]]) * exact)
