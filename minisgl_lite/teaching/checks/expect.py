"""What a learner's value must be, in sentences: kind, dtype, shape, then each element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .learner import Wrong, brief

if TYPE_CHECKING:
    from .exercise import Exercise


def tensor(value: Any, called: str, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """``value``, if it is a tensor of that dtype and shape. ``called``: the call as the learner
    would write it.

    Raises:
        Wrong: what it is instead.
    """
    if not isinstance(value, torch.Tensor):
        raise Wrong(f"{called} returned {_kind(value)}; a tensor is wanted")
    if value.dtype != dtype:
        raise Wrong(f"{called} returned {value.dtype}; {dtype} is wanted")
    if tuple(value.shape) != shape:
        raise Wrong(f"{called} has shape {tuple(value.shape)}; {shape} is wanted")
    return value


def whole(value: Any, called: str) -> int:
    """``value``, if it is an int. Raises Wrong."""
    if type(value) is not int:
        raise Wrong(f"{called} returned {_kind(value)}; a whole number is wanted")
    return value


def listed(value: Any, called: str, length: int | None = None) -> list[Any]:
    """``value``, if it is a list (of ``length`` entries). Raises Wrong."""
    if not isinstance(value, list):
        raise Wrong(f"{called} returned {_kind(value)}; a list is wanted")
    if length is not None and len(value) != length:
        raise Wrong(f"{called} has {len(value)} entries; {length} are wanted: {brief(value)}")
    return value


def equal(
    found: Any, right: Any, called: str, what: str = "entry", misconception: str | None = None
) -> None:
    """Raises Wrong, with the first entry that differs, unless both hold the same, in order."""
    pairs = zip(_plain(found), _plain(right), strict=False)
    for index, (one, other) in enumerate(pairs):
        if one != other:
            raise Wrong(
                f"{called}: {what} {index} is {brief(one)}; it should be {brief(other)}"
                f" (yours: {brief(found)})",
                misconception,
            )
    if len(_plain(found)) != len(_plain(right)):
        raise Wrong(
            f"{called} has {len(_plain(found))} entries; it should have {len(_plain(right))}"
            f" (yours: {brief(found)})",
            misconception,
        )


def prediction(found: Any, right: Any, exercise: Exercise) -> None:
    """Compare a predicted value. A wrong one hears where it differs, never what is right.

    Raises:
        Wrong: another kind of value, another length, or the first entry that differs.
    """
    tag = exercise.misconceptions[0] if exercise.misconceptions else None
    if isinstance(right, dict):
        if not isinstance(found, dict) or set(found) != set(right):
            raise Wrong(f"{exercise.answer} must be a dict with the keys {list(right)}")
        for key in right:
            _differs(found[key], right[key], f"{exercise.answer}[{key!r}]", tag)
    else:
        _differs(found, right, exercise.answer, tag)


def _differs(found: Any, right: Any, name: str, tag: str | None) -> None:
    found, right = _listed(found), _listed(right)
    if type(found) is not type(right):
        raise Wrong(f"{name} must be a {type(right).__name__}, not {_kind(found)}")
    if not isinstance(right, list):
        if found != right:
            raise Wrong(f"{name} is not {brief(found)}", tag)
        return
    if len(found) != len(right):
        raise Wrong(f"{name} has {len(found)} entries; another number is right", tag)
    for index, (one, other) in enumerate(zip(found, right, strict=True)):
        if _listed(one) != _listed(other):
            raise Wrong(f"{name}: entry {index} is not {brief(one)}", tag)


def _listed(value: Any) -> Any:
    """Tuples and tensors as the lists they may be written as."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> list[Any]:
    return value.tolist() if isinstance(value, torch.Tensor) else list(value)


def _kind(value: Any) -> str:
    if value is None:
        return "None (is a return missing?)"
    return f"a {type(value).__name__}, {brief(value, 40)}"
