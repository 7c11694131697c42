"""What of a long sweep is done already, kept in a file, so that it can go on where it stopped."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch


class Checkpoint:
    """One JSON line per finished chunk, in a file named after the code that was swept.

    Another state of the code finds no file and begins anew. A line cut short by an interruption is
    ignored. The folder may be deleted at any time.
    """

    def __init__(self, folder: Path, chunks: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"done-{fingerprint()}-{chunks}.jsonl"
        for other in folder.glob("done-*.jsonl"):
            if other != self.path:
                other.unlink()
        self.done = {entry["chunk"]: entry for entry in self._read()}

    def add(self, entry: dict[str, Any]) -> None:
        """``entry["chunk"]`` is its number."""
        self.done[entry["chunk"]] = entry
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)

    def _read(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        text = self.path.read_text(encoding="utf-8")
        if not text.endswith("\n"):  # NOTE: else the next line would be written behind half a one
            text = text[: text.rfind("\n") + 1]
            self.path.write_text(text, encoding="utf-8")
        yield from map(json.loads, text.splitlines())


def fingerprint() -> str:
    """The code that a run executes: the package's modules that are loaded, and this folder's."""
    digest = hashlib.sha256(f"{platform.python_version()} {torch.__version__}".encode())
    files = {module.__file__ for name, module in sys.modules.items() if _is_swept(name)}
    paths = {Path(file) for file in files if file}
    paths |= {p for p in Path(__file__).parent.rglob("*.py") if not p.name.startswith("test_")}
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _is_swept(module: str) -> bool:
    return module.startswith("minisgl_lite.") and not module.startswith("minisgl_lite.teaching")
