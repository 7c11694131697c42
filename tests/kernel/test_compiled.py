"""Libraries made of C sources: built once, and done without where they can't be had."""

from __future__ import annotations

import ctypes
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from minisgl_lite.kernel.compiled import (
    COMPILER,
    Call,
    Calls,
    _digest,
    joined,
    launch,
    load_library,
    recording,
)

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache folder, and nothing remembered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(COMPILER, raising=False)
    load_library.cache_clear()
    yield tmp_path / "cache" / "minisgl-lite"
    load_library.cache_clear()


@needs_compiler
def test_a_library_is_built_once_and_nothing_else_is_left(fresh: Path) -> None:
    assert load_library("attend.c") is not None
    (made,) = fresh.iterdir()
    before = made.stat().st_mtime_ns
    load_library.cache_clear()
    assert load_library("attend.c") is not None
    assert [path.stat().st_mtime_ns for path in fresh.iterdir()] == [before]


@needs_compiler
def test_without_a_home_to_write_to_it_is_built_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert load_library("attend.c") is not None


@pytest.mark.parametrize("compiler", ["", "no-such-compiler", "false"])
def test_no_compiler_or_one_that_fails_gives_none(
    compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COMPILER, compiler)
    assert load_library("attend.c") is None


@needs_compiler
def test_a_library_that_is_damaged_is_built_anew(fresh: Path) -> None:
    load_library("attend.c")
    (made,) = fresh.iterdir()
    made.unlink()
    made.write_bytes(b"no library")
    load_library.cache_clear()
    assert load_library("attend.c") is not None


def listener(heard: list[tuple[str, bytes]], name: str, answer: int = 0) -> Call:
    """A call that notes what it is handed; what it answers is refused with its name."""

    def hear(address: int) -> int:
        heard.append((name, ctypes.string_at(address, 16)))
        return answer

    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(hear)
    args = struct.pack("qd", len(name), 0.5)
    return Call(function, args, lambda bad: KeyError(f"{name} answered {bad}"))


@needs_compiler
def test_neighbours_are_joined_and_their_order_is_kept() -> None:
    heard: list[tuple[str, bytes]] = []
    calls: list[Callable[[], object]] = [listener(heard, name) for name in ("a", "bb", "ccc")]
    calls.insert(2, lambda: heard.append(("python", b"")))
    together = joined(calls)
    assert [type(call).__name__ for call in together] == ["Calls", "function", "Calls"]
    for call in together:
        call()
    assert [name for name, _ in heard] == ["a", "bb", "python", "ccc"]
    assert [struct.unpack("qd", args) for _, args in heard if args] == [
        (1, 0.5),
        (2, 0.5),
        (3, 0.5),
    ]


@needs_compiler
def test_after_a_call_that_fails_none_is_made() -> None:
    heard: list[tuple[str, bytes]] = []
    calls = [listener(heard, "a"), listener(heard, "b", 2**40), listener(heard, "c")]
    library = load_library("calls.c")
    assert library is not None
    with pytest.raises(KeyError, match=f"b answered {2**40}"):
        Calls(library, calls)()
    assert [name for name, _ in heard] == ["a", "b"]


def test_without_a_compiler_nothing_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPILER, "")
    calls = [listener([], "a"), listener([], "b")]
    assert joined(calls) == calls


def test_tensors_go_by_address_and_what_is_not_there_as_0() -> None:
    heard: list[tuple[str, bytes]] = []
    x = torch.zeros(3)
    calls: list[Callable[[], object]] = []
    kept: list[object] = []
    with recording(calls, kept):
        launch(listener(heard, "tensor").function, x, None)
        launch(listener(heard, "flag").function, True, 2.5)
    assert struct.unpack("2q", heard[0][1]) == (x.data_ptr(), 0)
    assert struct.unpack("qd", heard[1][1]) == (1, 2.5)
    assert len(calls) == 2 and kept == [(x, None), (True, 2.5)]


@needs_compiler
def test_another_header_makes_another_library(tmp_path: Path) -> None:
    source, header = tmp_path / "one.c", tmp_path / "shared.h"
    source.write_text('#include "shared.h"\n')
    digests = set()
    for text in ("int x;", "long x;"):
        header.write_text(text)
        digests.add(_digest("cc", source))
    assert len(digests) == 2
