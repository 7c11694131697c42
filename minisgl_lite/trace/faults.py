"""What the sanitizer finds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..hooks import HookError

EARLY = frozenset({"double-free", "freed-while-cached", "freed-in-use", "evicted-in-use"})
"""Kinds that are found before a wrong number is read; it may never be."""


def fault_text(fault: Mapping[str, Any]) -> str:
    """A trace's finding in words, without its step: that stands beside it."""
    return re.sub(r"^step \d+[:,] ", "", fault["text"])


def faults_of(frame: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All findings of a trace's frame, the first one first."""
    return [frame["fault"], *frame.get("more_faults", ())] if "fault" in frame else []


class Fault(NamedTuple):
    """One finding. ``text`` says it all in words; fields that do not apply are None.

    Kinds: "double-free", "freed-while-cached", "freed-in-use", "evicted-in-use",
    "handed-out-twice", "not-a-page", "write-place", "wrong-position", "wrong-token", "not-stored",
    "stale-read", "overwritten", "read-before-store".
    """

    kind: str
    text: str
    turn: int
    uid: int | None = None
    position: int | None = None
    layer: int | None = None
    slot: int | None = None
    expected: str | None = None
    found: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As a trace carries it."""
        keys = ("kind", "text", "uid", "position", "layer", "slot")
        return {key: getattr(self, key) for key in keys}


class KVSanitizerError(HookError):
    """K/V were, or were about to be, put or read in a wrong place; ``fault`` has the details."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault
