"""The judge's side of a check: the learner's code as something to call.

What comes back is compared by the exercise; what can go wrong on the way (a wrong signature, an
exception, a loop without end) is put into words here, the same for all exercises.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from typing import IO, Any, NamedTuple

import torch

from .wire import MAX_LINE, Handle, WireError, pack, parse, send, unpack

CHECK_SECONDS = 20.0
"""How long a whole check may take, the engine's own work included."""

MAX_CALLS = 5000


class Wrong(Exception):
    """The learner's answer is not right: one sentence that says what differed first.

    ``misconception``: the tag (``m01`` …) of the belief that leads here, where one is known.
    """

    def __init__(self, text: str, misconception: str | None = None) -> None:
        super().__init__(text)
        self.misconception = misconception


class NotDone(Exception):
    """The stub stands as it was handed out."""


class Gone(Exception):
    """The learner's side does not answer any more."""


class _Call(NamedTuple):
    args: list[Any]
    value: Any
    args_after: list[Any]


class Link:
    """Requests out, answers in, over a pair of byte streams; gives up at the deadline.

    ``printed``: whether the learner's code has printed anything, in this check.
    """

    printed = False

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes]) -> None:
        self.incoming, self.outgoing = incoming, outgoing
        self.deadline = float("inf")
        self.calls = 0
        self._buffer = b""

    def begin(self, counterparts: Sequence[str], seconds: float, call_seconds: float) -> None:
        """A new check: what is withheld on the learner's side, and how long it may take."""
        self.deadline = time.monotonic() + seconds
        self.calls, self.printed = 0, False
        send(
            self.outgoing,
            {"op": "begin", "counterparts": list(counterparts), "seconds": call_seconds},
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        if self.calls > MAX_CALLS:
            raise Wrong(f"your code was called {MAX_CALLS} times and the check is not at its end")
        try:
            send(self.outgoing, request)
        except (BrokenPipeError, OSError):
            raise Gone("the notebook's kernel has stopped") from None
        answer = parse(self._line())
        self.printed |= bool(answer.get("printed"))
        return answer

    def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            left = self.deadline - time.monotonic()
            ready = select.select([self.incoming], [], [], max(0.0, min(left, 3600.0)))[0]
            if not ready:
                raise Gone("your code did not come back in time; restart the kernel")
            data = self.incoming.read1(2**20)  # type: ignore[attr-defined]
            if not data:
                raise Gone("the notebook's kernel has stopped")
            self._buffer += data
            if len(self._buffer) > MAX_LINE:
                raise Wrong("your code returned more than 32 MB")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


class Learner:
    """A learner's function, or class, called by name.

    ``mutates``: the positions of arguments that a call may change in place; changes come back into
    the caller's tensors and lists. Any other argument must come back as it was.
    """

    def __init__(self, link: Link, name: str, *, mutates: Sequence[int] = ()) -> None:
        self.link, self.name, self.mutates = link, name, tuple(mutates)
        self._first_calls: list[_Call] = []

    def __call__(self, *args: Any) -> Any:
        """Call the learner's function. Raises Wrong, in words, when that fails."""
        kept = [_copied(arg) for arg in args]
        value = self._call(args)
        if len(self._first_calls) < 3:
            after = [_copied(arg) for arg in args]
            self._first_calls.append(_Call(kept, _copied(value), after))
        return value

    def _call(self, args: Sequence[Any]) -> Any:
        request = {"op": "call", "name": self.name}
        return call(self.link, request, self.name, args, self.mutates)

    def value(self) -> Any:
        """What the learner's variable holds. Raises NotDone while it is None."""
        answer = self.link.ask({"op": "value", "name": self.name})
        value = _value(answer, self.name, ())
        if value is None:
            raise NotDone
        return value

    def new(self, *args: Any) -> LearnerObject:
        """Make one of the learner's class; it stays on the learner's side."""
        handle = call(self.link, {"op": "new", "name": self.name}, self.name, args, self.mutates)
        return LearnerObject(self.link, self.name, _handle(handle))

    def repeat_first_calls(self) -> None:
        """The first calls once more: a function that keeps state between calls is found here."""
        for args, before, after in self._first_calls:
            called = f"{self.name}({shown(args)})"
            args_again = [_copied(arg) for arg in args]
            again = self._call(args_again)
            if not same(again, before):
                raise Wrong(
                    f"{called} returned {brief(before)} at first and {brief(again)} later: it keeps"
                    " something between calls"
                )
            for left, right in zip(after, args_again, strict=True):
                if not same(left, right):
                    raise Wrong(
                        f"{called} left {brief(left)} at first and {brief(right)} later: it keeps"
                        " something between calls"
                    )


class LearnerObject:
    """An object of the learner's class: methods by ``call``, attributes by ``get``.

    ``keep`` leaves what a method returns where it is, as an object of its own: a tensor that is a
    view stays one. ``read`` and ``write`` look at it there, so that a copy can be told from it.
    """

    def __init__(self, link: Link, class_name: str, handle: Handle) -> None:
        self.link, self.class_name, self.handle = link, class_name, handle

    def call(self, method: str, *args: Any, mutates: Sequence[int] = ()) -> Any:
        request = {"op": "method", "handle": int(self.handle), "name": method}
        return call(self.link, request, f"{self.class_name}.{method}", args, mutates)

    def get(self, attribute: str) -> Any:
        return self._attribute("get", attribute)

    def keep(self, method: str, *args: Any) -> LearnerObject:
        """What ``method`` returns, kept on the learner's side."""
        request = {"op": "call-keep", "handle": int(self.handle), "name": method}
        what = f"{self.class_name}.{method}"
        handle = call(self.link, request, what, args, ())
        return LearnerObject(self.link, f"{what}({shown(args)})", _handle(handle))

    def keep_attribute(self, attribute: str) -> LearnerObject:
        """An attribute, kept on the learner's side."""
        handle = _handle(self._attribute("keep", attribute))
        return LearnerObject(self.link, f"{self.class_name}.{attribute}", handle)

    def read(self) -> Any:
        """The value of what was kept, now."""
        answer = self.link.ask({"op": "read", "handle": int(self.handle)})
        return _value(answer, self.class_name, ())

    def write(self, index: Sequence[int | tuple[int, int]], value: Any) -> None:
        """Set ``kept[index] = value`` over there; a pair in ``index`` is a slice."""
        request = {"op": "write", "handle": int(self.handle)}
        answer = self.link.ask(request | {"index": pack(list(index)), "value": pack(value)})
        _value(answer, f"writing to {self.class_name}", ())

    def _attribute(self, op: str, attribute: str) -> Any:
        answer = self.link.ask({"op": op, "handle": int(self.handle), "name": attribute})
        if answer.get("type") == "AttributeError":
            raise Wrong(f"an object of your {self.class_name} has no {attribute!r}")
        return _value(answer, f"{self.class_name}.{attribute}", ())

    def drop(self) -> None:
        self.link.ask({"op": "drop", "handle": int(self.handle)})


def call(
    link: Link, request: dict[str, Any], what: str, args: Sequence[Any], mutates: Sequence[int]
) -> Any:
    """One call of the learner's code, its arguments kept whole. Raises Wrong, NotDone or Gone."""
    sent = [pack(arg) for arg in args]
    answer = link.ask(request | {"args": sent})
    value = _value(answer, what, args)
    back = answer.get("args")
    if not isinstance(back, list) or len(back) != len(sent):
        raise Gone("the learner's side did not send the arguments back")
    for place, (before, after) in enumerate(zip(sent, back, strict=True)):
        if before == after:
            continue
        if place not in mutates:
            raise Wrong(
                f"{what}({shown(args)}) changed its argument number {place + 1}, which must stay as"
                " it was: work on a copy"
            )
        _put_back(args[place], unpack(after), what, place)
    return value


def _handle(value: Any) -> Handle:
    if not isinstance(value, Handle):
        raise Gone("the learner's side answered something else than a handle")
    return value


def _value(answer: dict[str, Any], what: str, args: Sequence[Any]) -> Any:
    kind = answer.get("error")
    if kind is None:
        try:
            return unpack(answer.get("value"))
        except WireError as error:
            raise Gone(f"the learner's side sent {error}") from None
    called = f"{what}({shown(args)})" if args else what
    text = str(answer.get("text", ""))
    if kind == "raised":
        if answer.get("stub"):
            raise NotDone
        place = f" ({answer['place']})" if answer.get("place") else ""
        colon = ": " if text else ""
        raise Wrong(f"{called} raised {answer.get('type')}{colon}{text}{place}")
    raise Wrong(
        {
            "missing": f"there is no {what} in this notebook; run the cell that defines it",
            "signature": f"{what} has another signature: {text}",
            "kind": f"{what} is {text}, and can't be called; define it as the task says",
            "large": f"{called} returned more than 32 MB",
            "counterpart": f"{called} calls the package's own {text}; write that yourself",
            "type": f"{called}: {text}",
            "overtime": f"{called} ran for {answer.get('seconds')} seconds and was stopped: does a"
            " loop in it never end?",
        }.get(str(kind), f"{called} failed: {kind}")
    )


def _put_back(target: Any, value: Any, what: str, place: int) -> None:
    """A change in place, done to the caller's own argument."""
    if isinstance(target, torch.Tensor) and isinstance(value, torch.Tensor):
        if target.shape != value.shape or target.dtype != value.dtype:
            raise Wrong(f"{what} changed shape or dtype of its argument number {place + 1}")
        target.copy_(value)
    elif isinstance(target, list) and isinstance(value, list):
        target[:] = value
    else:
        raise Wrong(f"{what} made something else of its argument number {place + 1}")


def _copied(value: Any) -> Any:
    return unpack(pack(value))


def same(left: Any, right: Any) -> bool:
    """Equal in kind and in every element."""
    return bool(pack(left) == pack(right))


def brief(value: Any, limit: int = 80) -> str:
    """A value in a sentence: tensors as lists, long ones cut."""
    text = str(value.tolist()) if isinstance(value, torch.Tensor) else repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shown(args: Sequence[Any]) -> str:
    return ", ".join(brief(arg, 60) for arg in args)
