from __future__ import annotations

import pytest

from minisgl_lite.utils import align_ceil, align_down, div_ceil, div_even


@pytest.mark.parametrize(("a", "b", "want"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2)])
def test_div_ceil(a: int, b: int, want: int) -> None:
    assert div_ceil(a, b) == want


def test_align() -> None:
    assert [align_down(n, 4) for n in (0, 3, 4, 7, 8)] == [0, 0, 4, 4, 8]
    assert [align_ceil(n, 4) for n in (0, 1, 4, 5)] == [0, 4, 4, 8]


@pytest.mark.parametrize(("a", "b", "want"), [(8, 2, 4), (3, 3, 1), (9, 1, 9)])
def test_div_even_divides(a: int, b: int, want: int) -> None:
    assert div_even(a, b) == want
    assert div_even(a, b, allow_replicate=True) == want


@pytest.mark.parametrize(("a", "b"), [(2, 4), (1, 8), (3, 6)])
def test_div_even_replicates_only_when_allowed(a: int, b: int) -> None:
    assert div_even(a, b, allow_replicate=True) == 1
    with pytest.raises((ValueError, AssertionError)):
        div_even(a, b)


@pytest.mark.parametrize(("a", "b"), [(3, 2), (3, 4), (9, 6), (4, 6)])
def test_div_even_refuses_what_leaves_a_rest(a: int, b: int) -> None:
    with pytest.raises((ValueError, AssertionError)):
        div_even(a, b, allow_replicate=True)
