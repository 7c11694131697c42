from __future__ import annotations

import random

import pytest
import torch

from minisgl_lite.kernel import fast_compare_key


def ids(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize(
    ("x", "y", "common"),
    [
        (ids(), ids(), 0),
        (ids(), ids(1), 0),
        (ids(1, 2, 3), ids(1, 2, 3), 3),
        (ids(1, 2, 3), ids(1, 2), 2),
        (ids(1, 2), ids(1, 2, 3), 2),
        (ids(9, 2, 3), ids(1, 2, 3), 0),
        (ids(1, 9, 3), ids(1, 2, 3), 1),
        (ids(1, 2, 9), ids(1, 2, 3), 2),
    ],
)
def test_length_of_the_common_prefix(x: torch.Tensor, y: torch.Tensor, common: int) -> None:
    assert fast_compare_key(x, y) == common


def test_random_keys_against_a_loop() -> None:
    rng = random.Random(0)
    for _ in range(300):
        x = [rng.randint(0, 1) for _ in range(rng.randint(0, 9))]
        y = [rng.randint(0, 1) for _ in range(rng.randint(0, 9))]
        common = 0
        while common < min(len(x), len(y)) and x[common] == y[common]:
            common += 1
        assert fast_compare_key(ids(*x), ids(*y)) == common


def test_views_are_compared_as_they_lie() -> None:
    both = torch.tensor([[1, 7], [2, 7], [3, 7]])
    assert fast_compare_key(both[:, 0], torch.tensor([1, 2, 4])) == 2


@pytest.mark.parametrize("bad", [torch.zeros(2, 2), torch.tensor(3), torch.zeros(2, device="meta")])
def test_other_keys_are_refused(bad: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="one-dimensional and on the CPU"):
        fast_compare_key(bad, ids(1, 2))
    with pytest.raises(ValueError, match="one-dimensional and on the CPU"):
        fast_compare_key(ids(1, 2), bad)
