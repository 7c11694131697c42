"""The learner's side of a check: calls come in, the learner's own code answers them.

It knows nothing of right and wrong. Whatever the learner's code does (raise, print, loop, change
its arguments) comes back as plain data that the judge can put into words.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import io
import itertools
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from .wire import MAX_LINE, Handle, WireError, line, pack, parse, unpack
from .withheld import CounterpartUsed, withheld

CALL_SECONDS = 5.0
"""How long one call of the learner's code may take."""


PATIENCE = 6
"""How often code that takes too long is told to stop before its reader hears of it."""


class Overtime(BaseException):
    """Thrown into code that took too long; no ``except Exception`` catches it."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Throw ``Overtime`` into what runs within; only a main thread on Unix can.

    It is thrown again every half second, at code that catches everything, too. Code that goes on
    all the same can't be ended from here, and its reader is told so.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not (
        threading.main_thread()
    ):
        yield
        return

    out, thrown = sys.stdout, 0

    def late(*_: Any) -> None:
        nonlocal thrown
        thrown += 1
        if thrown == PATIENCE:
            print("This code can't be stopped: it catches every exception.", file=out, end=" ")
            print("Restart the kernel (menu Kernel, Restart).", file=out, flush=True)
        raise Overtime

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Server:
    """Answers calls with the objects of ``namespace``; objects it makes stay here, by number.

    ``counterparts`` can't be called meanwhile (``withheld.py``).
    """

    def __init__(
        self,
        namespace: Mapping[str, Any],
        counterparts: Sequence[str] = (),
        *,
        seconds: float = CALL_SECONDS,
    ) -> None:
        self.namespace = namespace
        self.counterparts = list(counterparts)
        self.seconds = seconds
        self.objects: dict[int, Any] = {}
        self._numbers = itertools.count()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request of the judge; always an answer, whatever happens."""
        held = _HeldBack()
        answer = self._tried(request, held)
        return answer | {"printed": True} if held.printed else answer

    def _tried(self, request: dict[str, Any], held: _HeldBack) -> dict[str, Any]:
        try:
            with time_limit(self.seconds), withheld(self.counterparts), _quiet(held):
                return self._answer(request)
        except Overtime:
            return {"error": "overtime", "seconds": self.seconds}
        except CounterpartUsed as used:
            return {"error": "counterpart", "text": str(used)}
        except WireError as error:
            return {"error": "type", "text": str(error)}
        except BaseException as error:
            # The learner's code may raise anything, also SystemExit.
            return {"error": "raised", **_told(error)}

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        op = request["op"]
        if op == "drop":
            self.objects.pop(request["handle"], None)
            return {"value": None}
        if op == "value":
            if request["name"] not in self.namespace:
                return {"error": "missing"}
            return {"value": pack(self.namespace[request["name"]])}
        if op == "get":
            return {"value": pack(getattr(self.objects[request["handle"]], request["name"]))}
        if op == "keep":
            return {"value": self._keep(getattr(self.objects[request["handle"]], request["name"]))}
        if op == "read":
            return {"value": pack(self.objects[request["handle"]])}
        if op == "write":
            at = [slice(*i) if isinstance(i, tuple) else i for i in unpack(request["index"])]
            self.objects[request["handle"]][tuple(at)] = unpack(request["value"])
            return {"value": None}
        target = self._target(request)
        if target is None:
            return {"error": "missing"}
        if not callable(target):
            return {"error": "kind", "text": repr(target)[:60]}
        args = [unpack(arg) for arg in request["args"]]
        if (refused := _refused(target, args)) is not None:
            return {"error": "signature", "text": refused}
        value = target(*args)
        answer: dict[str, Any] = {"args": [pack(arg) for arg in args]}
        if op in ("new", "call-keep"):
            return answer | {"value": self._keep(value)}
        return answer | {"value": pack(value)}

    def _keep(self, value: Any) -> Any:
        """Let ``value`` stay here; its number goes out."""
        number = next(self._numbers)
        self.objects[number] = value
        return pack(Handle(number))

    def _target(self, request: dict[str, Any]) -> Any:
        owner = request.get("handle")
        if owner is None:
            return self.namespace.get(request["name"])
        return getattr(self.objects[owner], request["name"], None)


def serve(namespace: Mapping[str, Any], incoming: IO[bytes], outgoing: IO[bytes]) -> dict[str, Any]:
    """Answer calls until the judge has reached a verdict; returns the message that has it.

    Raises:
        WireError: the judge went away, or sent something else.
    """
    server = Server(namespace)
    while True:
        request = incoming.readline(MAX_LINE)
        if not request:
            raise WireError("the judge has gone")
        message = parse(request)
        if "verdict" in message:
            return message
        if message.get("op") == "begin":
            server = Server(namespace, message["counterparts"], seconds=message["seconds"])
            continue
        answer = line(server.answer(message))
        if len(answer) > MAX_LINE:  # the judge would not read it to its end
            answer = line({"error": "large"})
        outgoing.write(answer)
        outgoing.flush()


class _HeldBack(io.TextIOBase):
    """Takes what is printed, keeps none of it, and remembers that something was."""

    printed = False

    def write(self, text: str) -> int:
        self.printed = True
        return len(text)


@contextlib.contextmanager
def _quiet(held: _HeldBack) -> Iterator[None]:
    """What the learner's code prints while it is checked is held back: a verdict is one line."""
    with contextlib.redirect_stdout(held), contextlib.redirect_stderr(held):
        yield


def _refused(target: Callable[..., Any], args: list[Any]) -> str | None:
    """Why ``target`` can't be called with that many arguments, if it can't."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args)
    except TypeError:
        return f"it takes {signature}, and is called with {len(args)} arguments"
    return None


def _told(error: BaseException) -> dict[str, Any]:
    """An exception as the learner should hear of it: its class, text, and their own line."""
    place = None
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith(_OURS) and frame.filename != __file__:
            place = f"line {frame.lineno}: {(frame.line or '').strip()[:80]}"
    known = type(error).__name__ in vars(builtins)
    return {
        "type": type(error).__name__,
        "text": str(error).split("\n")[0][:200],
        "place": place,
        "stub": known and isinstance(error, NotImplementedError),
    }


_OURS = __file__.rpartition("teaching")[0]
