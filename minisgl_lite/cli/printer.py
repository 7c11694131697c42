"""Prints the answers of several prompts in order, each as it comes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Protocol, TextIO

from minisgl_lite.llm import TokenEvent
from minisgl_lite.models import Tokenizer

_TITLE_WIDTH = 60


class _Decoder(Protocol):
    def feed(self, token_id: int) -> str: ...
    def finish(self) -> str: ...


class _Numbers:
    """What ``--ids`` takes: '1,4093,198'. For a model without a tokenizer."""

    def __init__(self) -> None:
        self._comma = ""

    def feed(self, token_id: int) -> str:
        text, self._comma = f"{self._comma}{token_id}", ","
        return text

    def finish(self) -> str:
        return ""


class _Answer:
    """The text of one prompt that is not printed yet."""

    def __init__(self, decoder: _Decoder) -> None:
        self.decoder = decoder
        self.waiting = ""
        self.done = False
        self.error: str | None = None

    def take(self) -> str:
        text, self.waiting = self.waiting, ""
        return text


class Printer:
    """Prompts run together, but their texts can't be read together.

    The first unfinished prompt streams; the text of later ones waits until its turn has come. With
    several prompts each has a header. ``tokenizer`` None prints token ids; ``out`` None nothing.
    """

    def __init__(
        self, prompts: Sequence[str], tokenizer: Tokenizer | None, out: TextIO | None
    ) -> None:
        if out is not None and hasattr(out, "reconfigure"):
            out.reconfigure(errors="replace")  # a terminal may not know every character
        self._prompts = prompts
        self._out = out
        self._answers = [
            _Answer(_Numbers() if tokenizer is None else tokenizer.stream_decoder())
            for _ in prompts
        ]
        self._current = 0
        self._header()

    @property
    def failures(self) -> int:
        return sum(answer.error is not None for answer in self._answers)

    def show(self, event: TokenEvent) -> None:
        """Take in one event of ``LLM.stream``; print what can be printed."""
        answer = self._answers[event.prompt]
        if event.token < 0:
            answer.error = (event.reason or "").removeprefix("error: ")
        elif event.reason != "stop":
            answer.waiting += answer.decoder.feed(event.token)
        if event.reason is not None:
            answer.waiting += answer.decoder.finish()
            answer.done = True
        self._advance()

    def line(self, text: str) -> None:
        self._print(f"{text}\n")

    def finish(self, program: str) -> int:
        """Say what failed; returns the exit code."""
        if self.failures == 0:
            return 0
        if self.failures < len(self._answers):
            return 1
        if self._out is not None:
            error = next(answer.error for answer in self._answers)
            several = "" if len(self._answers) == 1 else "no prompt could be run; the first: "
            print(f"{program}: error: {several}{error}", file=sys.stderr)
        return 2

    def _advance(self) -> None:
        while self._current < len(self._answers):
            answer = self._answers[self._current]
            self._print(answer.take())
            if not answer.done:
                return
            self._end(answer)
            self._current += 1
            self._header()

    def _end(self, answer: _Answer) -> None:
        if answer.error is None:
            self._print("\n")
        elif len(self._answers) > 1:
            self._print(f"error: {answer.error}\n")

    def _header(self) -> None:
        if len(self._answers) == 1 or self._current == len(self._answers):
            return
        title = " ".join(self._prompts[self._current].split())
        if len(title) > _TITLE_WIDTH:
            title = title[: _TITLE_WIDTH - 1] + "…"
        self._print(f"[{self._current + 1}] {title}\n")

    def _print(self, text: str) -> None:
        if self._out is not None and text:
            self._out.write(text)
            self._out.flush()
