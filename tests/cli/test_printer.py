"""The printer: order, streaming, whole characters."""

from __future__ import annotations

import io

import pytest

from minisgl_lite.cli.printer import Printer
from minisgl_lite.llm import TokenEvent
from minisgl_lite.models.tokenizer import ByteTokenizer


class Screen(io.StringIO):
    """Remembers each flush, that is, each piece that a reader gets to see."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def write(self, text: str) -> int:
        self.pieces.append(text)
        return super().write(text)


def printer(*prompts: str) -> tuple[Printer, Screen]:
    screen = Screen()
    return Printer(prompts, ByteTokenizer(), screen), screen


def show(target: Printer, prompt: int, text: str | bytes, reason: str | None = None) -> None:
    data = text.encode() if isinstance(text, str) else text
    for i, byte in enumerate(data):
        last = i == len(data) - 1
        target.show(TokenEvent(prompt, byte, reason if last else None))


def test_one_prompt_streams_without_a_header() -> None:
    target, screen = printer("p")
    show(target, 0, "ab")
    assert screen.getvalue() == "ab" and screen.pieces == ["a", "b"]
    show(target, 0, "c", "length")
    assert screen.getvalue() == "abc\n"


def test_half_a_character_is_never_printed() -> None:
    target, screen = printer("p")
    show(target, 0, "é語")
    assert screen.pieces == ["é", "語"]


def test_a_torn_character_at_the_end_is_marked() -> None:
    target, screen = printer("p")
    show(target, 0, "a語".encode()[:-1], "length")
    assert screen.getvalue() == "a\ufffd\n"


def test_the_token_that_stops_is_not_printed() -> None:
    target, screen = printer("p")
    show(target, 0, "ab")
    target.show(TokenEvent(0, ByteTokenizer.EOS, "stop"))
    assert screen.getvalue() == "ab\n"


def test_later_prompts_wait_for_their_turn_and_then_stream() -> None:
    target, screen = printer("p", "q")
    show(target, 1, "late")
    show(target, 0, "now")
    assert screen.getvalue() == "[1] p\nnow"
    show(target, 0, "!", "length")
    assert screen.getvalue() == "[1] p\nnow!\n[2] q\nlate"
    show(target, 1, "r", "length")
    assert screen.getvalue() == "[1] p\nnow!\n[2] q\nlater\n"


def test_an_error_stands_under_its_header() -> None:
    target, screen = printer("p", "q")
    target.show(TokenEvent(0, -1, "error: too long"))
    show(target, 1, "x", "length")
    assert screen.getvalue() == "[1] p\nerror: too long\n[2] q\nx\n"
    assert target.finish("prog") == 1


def test_exit_codes_tell_none_some_and_all_failed(capsys: pytest.CaptureFixture[str]) -> None:
    target, screen = printer("p")
    target.show(TokenEvent(0, -1, "error: too long"))
    assert target.finish("prog") == 2
    assert screen.getvalue() == ""
    assert capsys.readouterr().err == "prog: error: too long\n"
    target, _ = printer("p")
    show(target, 0, "x", "length")
    assert target.finish("prog") == 0


def test_other_ranks_print_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    silent = Printer(["p"], ByteTokenizer(), None)
    show(silent, 0, "x", "length")
    silent.line("counts")
    assert silent.finish("prog") == 0
    assert capsys.readouterr() == ("", "")
