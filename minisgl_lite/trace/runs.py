"""Slots as runs of consecutive numbers: ``[8, 9, 10, 3]`` is ``[[8, 3], [3, 1]]``.

Pages are contiguous, so almost every list of slots in a trace is a few runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def to_runs(slots: Iterable[int]) -> list[list[int]]:
    """Pack slots, in their order, into ``[first, count]`` runs."""
    runs: list[list[int]] = []
    for slot in slots:
        if runs and slot == runs[-1][0] + runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([slot, 1])
    return runs


def from_runs(runs: Sequence[Sequence[int]]) -> list[int]:
    """Unpack ``[first, count]`` runs into the list of slots."""
    return [slot for first, count in runs for slot in range(first, first + count)]
