"""Takes the package's own answer to an exercise away while the learner's is checked."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
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
    """Within, a call of any of ``names`` raises ``CounterpartUsed``."""
    with ExitStack() as stack:
        for name in names:
            owner, attribute, _ = locate(name)
            stack.enter_context(patch.object(owner, attribute, _gone(name.partition(":")[2])))
        yield


def _gone(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise CounterpartUsed(name)

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    return refuse
