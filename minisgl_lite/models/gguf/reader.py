"""Reads a GGUF file, version 2 or 3, little-endian: metadata at once, tensors when asked.

::

    magic, version, counts | metadata key-values | tensor infos | padding | tensor data …
    0                                                           data_start          file size

Nothing in the file is trusted: each length, count and offset is compared with the file's size
before it is used, so that a damaged file gives one ValueError and never a large allocation.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any, NamedTuple

import torch

from minisgl_lite.utils import align_ceil

from .cursor import Cursor
from .dequant import dequantize
from .types import FOREIGN_TYPES, MAGIC, TENSOR_TYPES, VERSIONS, BlockType


class TensorInfo(NamedTuple):
    """Where a tensor lies: ``shape`` in torch's order, ``start`` in bytes from the file's begin."""

    name: str
    shape: tuple[int, ...]
    type: BlockType
    start: int
    nbytes: int


class GGUFFile:
    """An open GGUF file: ``metadata`` by key and ``tensors`` by name. It is only read.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not GGUF, damaged, or holds a tensor type that is not supported; one line
            with the path, what was found and what is allowed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, TensorInfo] = {}
        self._data = _map_file(self.path)
        try:
            self._parse(Cursor(self._data))
        except ValueError as error:  # UnicodeDecodeError too
            raise ValueError(f"{self.path}: not a usable GGUF file: {error}.") from None

    def _parse(self, cursor: Cursor) -> None:
        magic = self._data[:4]
        if magic != MAGIC:
            raise ValueError(f"it starts with {magic!r}, a GGUF file with {MAGIC!r}")
        cursor.pos = 4
        version = cursor.number("I", "the version")
        if version not in VERSIONS:
            raise ValueError(f"version {version}, allowed: {VERSIONS} in little-endian order")
        num_tensors, num_values = cursor.numbers("Q", 2, "the header")
        cursor.need(num_values * 13, f"the list of {num_values} metadata values")
        for _ in range(num_values):
            key = cursor.string("a metadata key")
            self.metadata[key] = cursor.value(cursor.number("I", key), key)
        cursor.need(num_tensors * 24, f"the list of {num_tensors} tensors")
        raw = [_read_info(cursor) for _ in range(num_tensors)]
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"general.alignment is {alignment!r}, allowed: a positive integer")
        data_start = align_ceil(cursor.pos, alignment)
        for info in raw:
            self._add_tensor(info._replace(start=data_start + info.start))

    def _add_tensor(self, info: TensorInfo) -> None:
        end = info.start + info.nbytes
        if end > len(self._data):
            raise ValueError(
                f"truncated: tensor {info.name!r} ends at byte {end} of {len(self._data)}"
            )
        if info.name in self.tensors:
            raise ValueError(f"tensor {info.name!r} occurs twice")
        self.tensors[info.name] = info

    def value(self, key: str, kind: type, default: Any = None) -> Any:
        """Metadata ``key``. Raises ValueError when it is missing or not a ``kind``."""
        value = self.metadata.get(key, default)
        if not isinstance(value, kind):
            found = "missing" if value is None else f"{value!r:.40}"
            raise ValueError(f"{self.path}: metadata {key} is {found}, expected {kind.__name__}.")
        return value

    def values(self, key: str, kind: type) -> list[Any]:
        """Metadata ``key``, a list of ``kind``. Raises ValueError likewise."""
        values = self.value(key, list)
        if not all(isinstance(value, kind) for value in values):
            raise ValueError(f"{self.path}: metadata {key} is no list of {kind.__name__}.")
        return values

    def read(self, name: str) -> torch.Tensor:
        """Tensor ``name`` dequantised, fp32, a copy."""
        info = self.tensors[name]
        return dequantize(self.raw(name), info.type).view(info.shape)

    def raw(self, name: str) -> torch.Tensor:
        """The bytes of tensor ``name`` as they lie in the file: (nbytes,) uint8, a view."""
        info = self.tensors[name]
        return torch.frombuffer(self._data, dtype=torch.uint8, count=info.nbytes, offset=info.start)


def _map_file(path: str) -> mmap.mmap:
    """Map the file; private (copy on write), since torch wants writable memory."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: there is no such GGUF file.")
    if not Path(path).is_file() or Path(path).stat().st_size == 0:
        raise ValueError(f"{path}: not a usable GGUF file: it is empty or not a plain file.")
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def _read_info(cursor: Cursor) -> TensorInfo:
    """One entry of the tensor list; ``start`` still counts from the begin of the data."""
    name = cursor.string("a tensor's name")
    num_dims = cursor.number("I", f"tensor {name!r}")
    if not 1 <= num_dims <= 4:
        raise ValueError(f"tensor {name!r} has {num_dims} dimensions, allowed: 1 to 4")
    dims = cursor.numbers("Q", num_dims, f"tensor {name!r}")
    kind, offset = cursor.number("I", f"tensor {name!r}"), cursor.number("Q", f"tensor {name!r}")
    if kind not in TENSOR_TYPES:
        found = FOREIGN_TYPES.get(kind, "unknown")
        known = ", ".join(block.name for block in TENSOR_TYPES.values())
        raise ValueError(f"tensor {name!r} has type {kind} ({found}), supported: {known}")
    block = TENSOR_TYPES[kind]
    if dims[0] % block.elements != 0 or 0 in dims:
        raise ValueError(
            f"tensor {name!r} of {block.name} has dimensions {dims}, which are not whole blocks"
            f" of {block.elements}"
        )
    elements = 1
    for dim in dims:
        elements *= dim
    return TensorInfo(
        name, tuple(reversed(dims)), block, offset, elements // block.elements * block.nbytes
    )
