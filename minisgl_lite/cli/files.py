"""Files that a command writes."""

from __future__ import annotations

import os
from pathlib import Path


def check_place(option: str, path: Path) -> None:
    """A run is not worth losing to a misspelt folder: opens the file, and leaves what was there.

    Raises:
        ValueError: nothing can be written there.
    """
    try:
        if path.is_dir() or not path.parent.is_dir():
            raise ValueError("name a file in a folder that exists")
        if path.exists() and not path.is_file():
            return  # a device or a pipe
        new = not os.path.lexists(path)
        path.open("ab").close()
        if new:
            path.unlink()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        where = str(path).replace("\0", "\\0")
        raise ValueError(f"{option} {where:.200}: {why}.") from error
