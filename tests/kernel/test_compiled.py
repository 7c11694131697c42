"""Libraries made of C sources: built once, and done without where they can't be had."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from minisgl_lite.kernel.compiled import COMPILER, load_library

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
