"""Walks through the header of a GGUF file without ever leaving it."""

from __future__ import annotations

import mmap
import struct
from typing import Any

from .types import ARRAY, SCALARS, STRING

_U64 = struct.Struct("<Q")


class Cursor:
    """Reads values at ``pos`` and moves on; refuses to leave the buffer."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.pos = 0

    def need(self, nbytes: int, what: str) -> None:
        if nbytes > len(self.data) - self.pos:
            raise ValueError(
                f"truncated: {what} at byte {self.pos} needs {nbytes} bytes,"
                f" {len(self.data) - self.pos} are left"
            )

    def numbers(self, code: str, count: int, what: str) -> tuple[Any, ...]:
        layout = f"<{count}{code}"
        self.need(count * struct.calcsize(f"<{code}"), what)
        values = struct.unpack_from(layout, self.data, self.pos)
        self.pos += struct.calcsize(layout)
        return values

    def number(self, code: str, what: str) -> Any:
        return self.numbers(code, 1, what)[0]

    def string(self, what: str) -> str:
        return self.strings(1, what)[0]

    def strings(self, count: int, what: str) -> list[str]:
        """Each string is its length (uint64) and its UTF-8 bytes."""
        self.need(8 * count, what)
        data, pos, end = self.data, self.pos, len(self.data)
        found = []
        for _ in range(count):
            self.pos = pos
            self.need(8, what)
            start = pos + 8
            pos = start + _U64.unpack_from(data, pos)[0]
            if pos > end:
                raise ValueError(f"truncated: {what} at byte {start} ends at byte {pos} of {end}")
            found.append(data[start:pos].decode("utf-8"))
        self.pos = pos
        return found

    def value(self, kind: int, what: str) -> Any:
        """A metadata value: a number, a bool, a str, or a list of these."""
        if kind == STRING:
            return self.string(what)
        if kind in SCALARS:
            return self.number(SCALARS[kind], what)
        if kind != ARRAY:
            raise ValueError(f"{what} has value type {kind}, which GGUF doesn't define")
        item_kind = self.number("I", what)
        count = self.number("Q", what)
        if item_kind == STRING:
            return self.strings(count, what)
        if item_kind in SCALARS:
            return list(self.numbers(SCALARS[item_kind], count, what))
        raise ValueError(f"{what} is a list of value type {item_kind}, which is not supported")
