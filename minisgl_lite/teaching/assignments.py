"""Which notebooks are handed out together."""

from __future__ import annotations

ASSIGNMENTS: dict[str, tuple[str, ...]] = {
    "storage": ("pages-and-slots", "one-step"),
    "reuse": ("prefixes", "find-it"),
}
"""Notebooks of ``solutions/`` by assignment, about four hours each."""


def notebooks_of(assignment: str) -> tuple[str, ...]:
    """The notebooks of an assignment; a notebook's own name stands for it alone.

    Raises:
        ValueError: there is no such assignment; the message has those there are.
    """
    if any(assignment in notebooks for notebooks in ASSIGNMENTS.values()):
        return (assignment,)
    if assignment not in ASSIGNMENTS:
        known = [*ASSIGNMENTS, *(name for notebooks in ASSIGNMENTS.values() for name in notebooks)]
        raise ValueError(f"unknown assignment {assignment!r}; known: {', '.join(known)}.")
    return ASSIGNMENTS[assignment]
