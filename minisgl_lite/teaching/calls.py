"""Who calls whom while something runs: the source map, read off a running engine."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

PACKAGE = "minisgl_lite."
QUIET = ("core", "hooks", "text", "utils")
"""What everything calls; told, it would hide the rest."""


@dataclass
class Calls:
    """A function, how often its caller called it, and what it called in turn, in order.

    ``module`` is the path inside the package. Calls of one function from one place are one entry.
    """

    module: str
    name: str
    count: int = 1
    inside: dict[tuple[str, str], Calls] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Calls]:
        """All entries below this one, each before what it called."""
        for entry in self.inside.values():
            yield entry
            yield from entry

    def outline(self, depth: int = 99) -> str:
        """One line per entry, indented by who called it, down to ``depth`` levels."""
        return "\n".join(self._lines(depth, ""))

    def between(self) -> Counter[tuple[str, str]]:
        """(calling module, called module) -> calls."""
        pairs: Counter[tuple[str, str]] = Counter()
        for caller in (self, *self):
            for called in caller.inside.values():
                if caller.module:
                    pairs[caller.module, called.module] += called.count
        return pairs

    def counts(self) -> Counter[str]:
        """Function -> calls, from wherever they came."""
        found: Counter[str] = Counter()
        for entry in self:
            found[entry.name] += entry.count
        return found

    def callers(self, name: str) -> set[str]:
        """The modules that called the function."""
        return {
            caller.module
            for caller in (self, *self)
            for called in caller.inside.values()
            if called.name == name
        }

    def _lines(self, depth: int, indent: str) -> Iterator[str]:
        if depth == 0:
            return
        for entry in self.inside.values():
            times = f"  x {entry.count}" if entry.count > 1 else ""
            yield f"{indent}{entry.module}: {entry.name}{times}"
            yield from entry._lines(depth - 1, f"{indent}    ")


class _Watch:
    """A profile function that keeps the calls that cross a module's border."""

    def __init__(self, only: Sequence[str], leave_out: Sequence[str]) -> None:
        self.root = Calls("", "")
        self._only, self._leave_out = only, leave_out
        self._open: list[tuple[FrameType, Calls]] = []

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "return" and self._open and self._open[-1][0] is frame:
            self._open.pop()
        if event != "call" or not self._is_told(frame):
            return
        caller = self._open[-1][1] if self._open else self.root
        module = _module(frame)
        if module == caller.module:
            return
        key = module, _name(frame)
        entry = caller.inside.get(key)
        if entry is None:
            entry = caller.inside[key] = Calls(*key)
        else:
            entry.count += 1
        self._open.append((frame, entry))

    def _is_told(self, frame: FrameType) -> bool:
        code = frame.f_code
        module = _module(frame)
        # Comprehensions and lambdas are parts of a function; a generator is called at each resume.
        unnamed = code.co_name.startswith("<") or code.co_flags & inspect.CO_GENERATOR
        made = code.co_filename.startswith("<")  # what dataclasses write
        wanted = _lies_in(module, self._only) if self._only else bool(module)
        return wanted and not (unnamed or made or _lies_in(module, self._leave_out))


def record_calls(
    work: Callable[[], object], *, only: Sequence[str] = (), leave_out: Sequence[str] = QUIET
) -> Calls:
    """Run ``work`` and return which of the package's functions called which, across modules.

    A call within one module is part of its caller, and so is one into a module that is not told.

    Args:
        work: is called once, in this thread; other threads are not watched.
        only: modules or packages to tell, ``"scheduler.cache"`` or ``"kvcache"``; default: all.
        leave_out: modules or packages not to tell.
    """
    watch = _Watch(only, leave_out)
    former = sys.getprofile()
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(former)
    return watch.root


def _lies_in(module: str, places: Sequence[str]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


def _module(frame: FrameType) -> str:
    """The path inside the package; empty for what lies outside it."""
    name = str(frame.f_globals.get("__name__", ""))
    return name.removeprefix(PACKAGE) if name.startswith(PACKAGE) else ""


def _name(frame: FrameType) -> str:
    code = frame.f_code
    name: str = getattr(code, "co_qualname", "") or _searched_name(frame, code)
    return name.replace(".<locals>", "")


def _searched_name(frame: FrameType, code: CodeType) -> str:
    """Python 3.10's code objects don't know the class they belong to: ask ``self``."""
    for cls in type(frame.f_locals.get("self")).__mro__:
        member = vars(cls).get(code.co_name)
        function = member.fget if isinstance(member, property) else inspect.unwrap(member or len)
        if getattr(function, "__code__", None) is code:
            return f"{cls.__name__}.{code.co_name}"
    return code.co_name


__all__ = ["QUIET", "Calls", "record_calls"]
