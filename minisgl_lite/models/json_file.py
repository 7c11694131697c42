"""JSON files that strangers wrote: an entry of the wrong kind is named before anything uses it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """What an entry may be: in words, and as a test."""

    words: str
    holds: Callable[[Any], bool]


def _whole(value: Any) -> bool:
    return type(value) is int


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


WHOLE = Kind("a whole number", _whole)
NUMBER = Kind("a number", _number)
POSITIVE = Kind("a number above 0", lambda value: _number(value) and value > 0)
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
TEXT = Kind("a text", lambda value: isinstance(value, str))
OBJECT = Kind("an object", lambda value: isinstance(value, dict))
NUMBERS = Kind("a list of numbers", lambda v: isinstance(v, list) and all(map(_number, v)))
TEXTS = Kind(
    "a list of one or more texts",
    lambda value: (
        isinstance(value, list) and bool(value) and all(isinstance(v, str) for v in value)
    ),
)
IDS = Kind(
    "a token id or a list of them",
    lambda value: _whole(value) or (isinstance(value, list) and all(map(_whole, value))),
)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds no JSON object.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}.") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: holds a {type(content).__name__}, expected a JSON object.")
    return content


def check_kinds(content: Mapping[str, Any], kinds: Mapping[str, Kind], what: str) -> None:
    """Raises ValueError naming the first entry of ``what`` that is not of its kind.

    An entry that is absent or null passes: whether it is needed, its reader knows.
    """
    for key, kind in kinds.items():
        value = content.get(key)
        if value is not None and not kind.holds(value):
            shown = repr(value)
            shown = shown if len(shown) <= 60 else shown[:57] + "..."
            raise ValueError(f"{what}: {key!r} is {shown}, allowed: {kind.words}.")
