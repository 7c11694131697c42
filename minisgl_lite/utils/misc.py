"""Integer arithmetic of pages and heads (mini-sglang: utils/misc.py)."""

from __future__ import annotations


def div_ceil(a: int, b: int) -> int:
    """The number of groups of ``b`` that hold ``a`` items; the last may be partly filled."""
    return -(-a // b)


def align_down(a: int, b: int) -> int:
    """The largest multiple of ``b`` that is at most ``a``."""
    return a // b * b


def align_ceil(a: int, b: int) -> int:
    """The smallest multiple of ``b`` that is at least ``a``."""
    return div_ceil(a, b) * b


def div_even(a: int, b: int, allow_replicate: bool = False) -> int:
    """Share ``a`` items among ``b`` ranks, the same number on each.

    With ``allow_replicate`` fewer items than ranks are allowed when ``a`` divides ``b``: then
    ``b / a`` ranks hold a copy of the same item, one each.

    Raises:
        ValueError: the items can't be shared evenly.
    """
    if allow_replicate and 0 < a < b and b % a == 0:
        return 1
    if b <= 0 or a % b != 0:
        hint = ", nor one item by several" if allow_replicate else ""
        raise ValueError(f"{a} items can't be shared evenly by {b} ranks{hint}.")
    return a // b
