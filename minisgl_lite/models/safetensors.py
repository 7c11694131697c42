"""Reads the tensors of a checkpoint folder (extra ``book``: the ``safetensors`` package)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from minisgl_lite.utils import require

from .json_file import OBJECT, check_kinds, read_json

# Buffers that old checkpoints carry along; they follow from the configuration.
_DERIVED = ".rotary_emb.inv_freq"


class SafetensorsFolder:
    """A ``TensorSource`` over all ``*.safetensors`` files of a folder.

    Raises:
        FileNotFoundError: the folder has none, or lacks one that its index names.
        ValueError: a file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._files: dict[str, Path] = {}
        for file in _weight_files(path):
            with _open(file) as handle:
                for name in handle.keys():  # noqa: SIM118 -- not a dict
                    if not name.endswith(_DERIVED):
                        self._shapes[name] = tuple(handle.get_slice(name).get_shape())
                        self._files[name] = file

    def names(self) -> set[str]:
        return set(self._shapes)

    def native_name(self, name: str) -> str:
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        return self._shapes[name]

    def read(self, name: str) -> torch.Tensor:
        """As stored, copied out of the file, which is mapped into memory."""
        with _open(self._files[name]) as handle:
            tensor: torch.Tensor = handle.get_tensor(name)
            return tensor.clone()


def _weight_files(path: Path) -> list[Path]:
    """All shards. Mistral's ``consolidated`` file repeats the others under names of its own."""
    files = sorted(path.glob("*.safetensors"))
    files = [f for f in files if not f.name.startswith("consolidated")] or files
    if not files:
        raise FileNotFoundError(f"{path}: there is no *.safetensors file in it.")
    index = path / "model.safetensors.index.json"
    if index.is_file():
        content = read_json(index)
        check_kinds(content, {"weight_map": OBJECT}, str(index))
        named = content.get("weight_map") or {}
        for shard in sorted({str(file) for file in named.values()} - {file.name for file in files}):
            tensor = next(name for name, file in named.items() if str(file) == shard)
            raise FileNotFoundError(f"{path / shard} is missing; it holds {tensor!r} and others.")
    return files


def _open(file: Path) -> Any:
    library = require("safetensors", extra="book")
    try:
        return library.safe_open(str(file), framework="pt", device="cpu")
    except library.SafetensorError as error:
        raise ValueError(f"{file}: not a usable safetensors file: {error}.") from None
