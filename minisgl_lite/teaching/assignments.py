"""Which notebooks are handed out together."""

from __future__ import annotations

ASSIGNMENTS: dict[str, tuple[str, ...]] = {
    "storage": ("pages-and-slots",),
}
"""Notebooks of ``solutions/`` by assignment, about four hours each."""


def notebooks_of(assignment: str) -> tuple[str, ...]:
    """The notebooks of an assignment.

    Raises:
        ValueError: there is no such assignment; the message has those there are.
    """
    if assignment not in ASSIGNMENTS:
        raise ValueError(f"unknown assignment {assignment!r}; known: {', '.join(ASSIGNMENTS)}.")
    return ASSIGNMENTS[assignment]
