"""Takes the package's own answer to an exercise away while the learner's is checked."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from types import FunctionType
from typing import Any
from unittest.mock import patch


class CounterpartUsed(Exception):
    """The learner's code called what it is to replace; the message is the counterpart's name."""


def locate(name: str) -> tuple[Any, str, Any]:
    """(owner, attribute, value) of ``"package.module:Class.method"``.

    Raises:
        ValueError: there is no such thing.
    """
    module, _, path = name.partition(":")
    owner: Any = None
    value: Any = importlib.import_module(module)
    attribute = ""
    try:
        for attribute in path.split("."):
            owner, value = value, getattr(value, attribute)
    except AttributeError:
        raise ValueError(f"{name}: there is no {attribute!r}.") from None
    return owner, attribute, value


@contextmanager
def withheld(names: Sequence[str]) -> Iterator[None]:
    """Within, a call of any of ``names`` raises ``CounterpartUsed``.

    A function's code is exchanged, not its name: who imported it before calls it in vain, too.
    """
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(_taken_away(name))
        yield


@contextmanager
def _taken_away(name: str) -> Iterator[None]:
    owner, attribute, value = locate(name)
    wrapped: Any = value.fget if isinstance(value, property) else value
    function = inspect.unwrap(wrapped)
    refusal = _refusal(name.partition(":")[2])
    if not isinstance(function, FunctionType) or function.__closure__:
        with patch.object(owner, attribute, refusal):
            yield
        return
    code, function.__code__ = function.__code__, refusal.__code__
    try:
        yield
    finally:
        function.__code__ = code


@lru_cache(maxsize=256)
def _refusal(name: str) -> FunctionType:
    """A function without a closure, so that its code fits any other such function."""
    scope: dict[str, Any] = {}
    lines = (
        "def refuse(*args, **kwargs):",
        f"    from {__name__} import CounterpartUsed",
        f"    raise CounterpartUsed({name!r})",
    )
    exec("\n".join(lines), scope)
    function: FunctionType = scope["refuse"]
    return function
