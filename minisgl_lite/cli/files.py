"""Files that a command writes."""

from __future__ import annotations

from pathlib import Path


def check_place(option: str, path: Path) -> None:
    """A run is not worth losing to a misspelt folder. Raises ValueError."""
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"{option} {path}: name a file in a folder that exists.")
