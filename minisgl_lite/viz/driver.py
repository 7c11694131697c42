"""What a view talks to: commands in, frames out. It never sees a scheduler.

A command is a dict with ``op`` and its arguments, an answer a dict; both are JSON::

    {"op": "add", "prompt": text or token ids, "max_tokens": int, "temperature": 0}
    {"op": "step"}   {"op": "run"}   {"op": "pause"}      run is one turn too: the view asks again
    {"op": "abort", "uid": int}
    {"op": "reset", "page_size", "num_pages", "cache_type", "budget"}        each may be left out

    {"frames": [those that are new], "vocab": {"<token>": "<hex>"}, "busy": whether work is left,
     "error": null or one line}          after reset also "meta"; after add also "uid"

A kernel answers only between executions: so a run is a chain of single turns, and a pause or an
abort acts within one turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import torch

from ..core import SamplingParams
from ..llm import LLM
from ..message import AbortBackendMsg, UserMsg
from ..scheduler import Scheduler
from ..scheduler.scheduler import ForwardData
from ..text import say
from ..toy import Toy
from ..trace import KVSanitizer, Recorder, Trace
from ..trace.describe import TokenBytes, Vocab

Command: TypeAlias = "dict[str, Any]"
Answer: TypeAlias = "dict[str, Any]"
Encode: TypeAlias = "Callable[[str], list[int]]"
"""Text -> token ids."""

SETTINGS = ("page_size", "num_pages", "cache_type", "budget")


class Driver(Protocol):
    """Runs something that has a trace."""

    def command(self, command: Command) -> Answer:
        """Obey; what goes wrong stands in the answer's ``error``, nothing is raised."""

    def trace(self) -> Trace:
        """All that has happened; the next answer's frames go on from here."""


class _Commands:
    """The part that all drivers share: find the command, and turn an error into an answer."""

    OPS = ("add", "step", "run", "pause", "abort", "reset")

    def command(self, command: Command) -> Answer:
        op = command.get("op") if isinstance(command, dict) else None
        method = getattr(self, f"_{op}", None) if op in self.OPS else None
        if method is None:
            return self._answer(error=say("driver.op", op=repr(op), ops=", ".join(self.OPS)))
        try:
            extra = method(**{key: value for key, value in command.items() if key != "op"})
        except TypeError as error:
            wrong = re.sub(r"^.*?\(\) ", "", str(error))
            return self._answer(error=f"{op}: {wrong}")
        except ValueError as error:
            return self._answer(error=str(error))
        except Exception as error:
            # The reader is in front of a picture, not of a log: say it there.
            return self._answer(error=f"{type(error).__name__}: {error}".splitlines()[0])
        return self._answer(**(extra or {}))

    def _answer(self, **extra: Any) -> Answer:
        frames, vocab = self._news()
        words = {str(token): text.hex() for token, text in vocab.items()}
        answer = {"frames": frames, "vocab": words, "busy": self._busy(), "error": None}
        return answer | extra

    def _news(self) -> tuple[list[dict[str, Any]], dict[int, bytes]]:
        raise NotImplementedError

    def _busy(self) -> bool:
        raise NotImplementedError


class _SharedRecorder(Recorder):
    """The recorder of all drivers over one scheduler, with its sanitizer."""

    @classmethod
    def of(cls, scheduler: Scheduler, vocab: Vocab | TokenBytes | None) -> _SharedRecorder:
        for listener in scheduler.hooks.listeners:
            if isinstance(listener, cls):
                return listener
        return cls(scheduler, vocab=vocab, sanitizer=KVSanitizer(scheduler, stop=False))


class LocalDriver(_Commands):
    """Drives a scheduler in this process, with the sanitizer on; its faults stand in the frames.

    Args:
        target: an ``LLM`` or ``Toy``; or a function that makes a scheduler from the settings of
            ``reset`` (keywords, each may be left out); or another ``Scheduler``, which can't be
            reset. A toy answers a prompt that is typed with the prompt's own words.
        encode: prompt to token ids; by default the LLM's tokenizer, and for a scripted engine,
            which has none, numbers ("5, 6, 7").
        vocab: bytes of a token, for engines without a tokenizer, as ``Recorder`` takes it.
        overlap: use the overlap loop; an LLM knows for itself.

    A reset of an LLM makes another one over the same weights and leaves the reader's own alone;
    that of a toy makes another toy that knows the same words.
    """

    def __init__(
        self,
        target: LLM | Scheduler | Callable[..., Scheduler],
        *,
        encode: Encode | None = None,
        vocab: Vocab | TokenBytes | None = None,
        overlap: bool = False,
    ) -> None:
        self._make = target if not isinstance(target, Scheduler) else None
        self._encode, self._vocab, self._overlap = encode, vocab, overlap
        self._made: Scheduler | None = None  # by us, so ours to close
        if isinstance(target, Scheduler):
            self._take_up(target)
        else:
            self._take_up(target())

    def _take_up(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._recorder = _SharedRecorder.of(scheduler, self._vocab)
        if self._overlap:
            self._recorder.meta["loop"] = "overlap"
        self._sent = self._words_sent = 0
        self._next_uid = 0
        self._last_data: ForwardData | None = None

    def trace(self) -> Trace:
        self._sent, self._words_sent = len(self._recorder.frames), len(self._recorder.vocab)
        return self._recorder.trace()

    def _news(self) -> tuple[list[dict[str, Any]], dict[int, bytes]]:
        frames = self._recorder.frames[self._sent :]
        words = dict(list(self._recorder.vocab.items())[self._words_sent :])
        self._sent, self._words_sent = len(self._recorder.frames), len(self._recorder.vocab)
        return frames, words

    def _busy(self) -> bool:
        return self.scheduler.has_work or bool(getattr(self.scheduler.io, "waiting", ()))

    # ---- the commands --------------------------------------------------------------------------
    def _add(
        self, prompt: str | Sequence[int], max_tokens: int = 16, temperature: float = 0.0
    ) -> dict[str, Any]:
        _check("max_tokens", max_tokens, int, "count")
        _check("temperature", temperature, (int, float), "temperature")
        ids = torch.tensor(self._ids(prompt), dtype=torch.int32)
        params = SamplingParams(temperature=temperature, max_tokens=max_tokens)
        # Said at once rather than when the turn comes. No request has this uid.
        self.scheduler._check_request(UserMsg(-2, ids, params))
        if isinstance(self.scheduler, Toy):  # nobody wrote its answer: it says the prompt again
            return {"uid": self.scheduler.add(ids.tolist(), ids.tolist(), max_tokens=max_tokens)}
        uid = self._new_uid()
        self._queue.send(UserMsg(uid, ids, params))
        return {"uid": uid}

    def _ids(self, prompt: str | Sequence[int]) -> list[int]:
        if isinstance(prompt, str):
            tokenizer = getattr(self.scheduler, "tokenizer", None)
            encode = self._encode or (_numbers if tokenizer is None else tokenizer.encode)
            return encode(prompt)
        ids = list(prompt)
        for token in ids:
            _check(say("driver.token"), token, int, "token")
            if not 0 <= token < 2**31:
                raise ValueError(say("driver.token.outside", token=token))
        return ids

    def _new_uid(self) -> int:
        if isinstance(self.scheduler, LLM):
            uid, self.scheduler.counter = self.scheduler.counter, self.scheduler.counter + 1
            return uid
        seen = [int(uid) for frame in self._recorder.frames for uid in frame.get("reqs", ())]
        self._next_uid = max([self._next_uid, *(uid + 1 for uid in seen)])
        uid, self._next_uid = self._next_uid, self._next_uid + 1
        return uid

    def _step(self) -> None:
        if not self._busy():
            return
        if isinstance(self.scheduler, LLM):
            self.scheduler.run_turn()
        elif isinstance(self.scheduler, Toy):
            self.scheduler.step()
        elif self._overlap:
            self._last_data = self.scheduler.overlap_loop(self._last_data)
        else:
            self.scheduler.normal_loop()

    _run = _step

    def _pause(self) -> None:
        """Between two turns everything pauses."""

    def _abort(self, uid: int) -> None:
        _check("uid", uid, int, "uid")
        alive = sorted({*self.scheduler._live_uids(), *self._waiting_uids()})
        if uid not in alive:
            names = ", ".join(f"r{other}" for other in alive)
            key = "driver.abort.other" if alive else "driver.abort.none"
            raise ValueError(say(key, uid=uid, names=names))
        self._queue.send(AbortBackendMsg(uid))

    def _waiting_uids(self) -> list[int]:
        """Requests that were added since the last turn."""
        return [msg.uid for msg in self._queue.waiting if isinstance(msg, UserMsg)]

    def _reset(self, **settings: Any) -> dict[str, Any]:
        for name, value in settings.items():
            if name not in SETTINGS:
                raise ValueError(say("driver.setting", name=name, settings=", ".join(SETTINGS)))
            if name != "cache_type":
                _check(name, value, int, "count")
                if value < 1:
                    raise ValueError(say("driver.setting.low", name=name, value=value))
        scheduler = self._remake(settings)
        if isinstance(self._made, LLM):
            self._made.close()
        self._made = scheduler
        self._take_up(scheduler)
        return {"meta": self._recorder.meta}

    def _remake(self, settings: dict[str, Any]) -> Scheduler:
        if self._make is not None and not isinstance(self.scheduler, LLM):
            return self._make(**settings)
        fork: Callable[..., Scheduler] | None = getattr(self.scheduler, "fork", None)
        if fork is None:
            raise ValueError(say("driver.reset.never"))
        budget = settings.pop("budget", None)
        return fork(**settings, **({} if budget is None else {"max_extend_tokens": budget}))

    @property
    def _queue(self) -> Any:
        """The scheduler's ``io``: a ``MessageQueue``, or what has its ``send`` and ``waiting``."""
        return self.scheduler.io


class TraceDriver(_Commands):
    """Plays a recorded run through the same commands; it can be stepped, but not changed."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._at = self._sent = 0
        self._words: set[int] = set()

    def trace(self) -> Trace:
        """The part that was played."""
        self._sent = self._at
        self._words |= set(self._vocab_of(self._trace.frames[: self._at]))
        played = self._trace.frames[: self._at]
        return Trace(self._trace.meta, played, {t: self._trace.vocab[t] for t in self._words})

    def _vocab_of(self, frames: Sequence[dict[str, Any]]) -> dict[int, bytes]:
        ids = (
            token
            for f in frames
            for req in f.get("reqs", {}).values()
            for token in req.get("ids", ())
        )
        return {token: self._trace.vocab[token] for token in ids if token in self._trace.vocab}

    def _news(self) -> tuple[list[dict[str, Any]], dict[int, bytes]]:
        frames = self._trace.frames[self._sent : self._at]
        self._sent = self._at
        words = {t: w for t, w in self._vocab_of(frames).items() if t not in self._words}
        self._words |= set(words)
        return frames, words

    def _busy(self) -> bool:
        return self._at < len(self._trace)

    def _step(self) -> None:
        frames = self._trace.frames
        turn = frames[self._at]["turn"] if self._busy() else None
        while self._busy() and frames[self._at]["turn"] == turn:
            self._at += 1

    _run = _step

    def _pause(self) -> None:
        """Between two turns everything pauses."""

    def _add(self, **_: Any) -> None:
        raise ValueError(say("driver.recorded.add"))

    def _abort(self, **_: Any) -> None:
        raise ValueError(say("driver.recorded.abort"))

    def _reset(self, **settings: Any) -> dict[str, Any]:
        """From the beginning; other settings would need another run."""
        other = [name for name, value in settings.items() if self._trace.meta.get(name) != value]
        if other:
            raise ValueError(say("driver.recorded.reset", names=", ".join(other)))
        self._at = self._sent = 0
        self._words = set()
        return {"meta": self._trace.meta}


def _check(name: str, value: Any, kind: type | tuple[type, ...], allowed: str) -> None:
    """``allowed``: what the catalogue has under ``driver.allowed.``."""
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = say(f"driver.allowed.{allowed}")
        raise ValueError(say("driver.type", name=name, value=repr(value), wanted=wanted))


def _numbers(prompt: str) -> list[int]:
    """Token ids as a reader types them."""
    words = prompt.replace(",", " ").split()
    if not all(word.isdecimal() for word in words):
        raise ValueError(say("driver.numbers", prompt=repr(prompt)))
    return [int(word) for word in words]
