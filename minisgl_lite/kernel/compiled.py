"""C sources of this package, compiled where a compiler is there, loaded, and called.

A library is built once per source, compiler and processor, into the user's cache folder. Without a
compiler, or when anything about it fails, there is none, and whoever asked uses its torch twin.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch

FLAGS = (
    *("-O3", "-march=native", "-mprefer-vector-width=512", "-ffast-math"),
    *("-fopenmp", "-fPIC", "-Wno-psabi"),
)
COMPILER = "MINISGL_LITE_CC"
"""Environment variable: the C compiler to use; empty means none."""


@cache
def load_library(source: str) -> ctypes.CDLL | None:
    """The library made of ``source``, a file beside this one; None where it can't be had."""
    name = os.environ.get(COMPILER, "cc")
    compiler = shutil.which(name) if name else None
    if compiler is None:
        return None
    path = Path(__file__).with_name(source)
    for folder in (_cache_folder(), None):
        try:
            return _build_and_load(compiler, path, folder)
        except (OSError, subprocess.SubprocessError):
            continue  # no home to write to, another compiler's flags, a library that doesn't load
    return None


def _cache_folder() -> Path | None:
    try:
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a user without a home
        return None
    return Path(root) / "minisgl-lite"


def _build_and_load(compiler: str, source: Path, folder: Path | None) -> ctypes.CDLL:
    """Without a ``folder``, in one that is gone afterwards: a loaded library needs no file."""
    if folder is not None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        library = folder / f"{source.stem}-{_digest(compiler, source)}.so"
        if not library.exists():
            _compile(compiler, source, library)
        return ctypes.CDLL(str(library))
    with tempfile.TemporaryDirectory() as own:
        _compile(compiler, source, Path(own) / "library.so")
        return ctypes.CDLL(str(Path(own) / "library.so"))


def _digest(compiler: str, source: Path) -> str:
    """Of all that the machine code depends on: a home folder may be shared by several machines."""
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=20)
    parts = [source.read_bytes(), version.stdout, " ".join(FLAGS).encode(), _processor()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _processor() -> bytes:
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
        return next(line for line in lines if line.startswith((b"flags", b"Features")))
    except (OSError, StopIteration):
        return f"{platform.machine()} {platform.processor()} {platform.node()}".encode()


def _compile(compiler: str, source: Path, library: Path) -> None:
    """In two steps, so that OpenMP is not linked: torch has brought one, and two don't mix.

    Two pools of threads would each spin on the cores that the other needs.
    """
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made, linked = Path(folder) / "made.o", Path(folder) / "linked.so"
        for command in (
            [compiler, *FLAGS, "-c", str(source), "-o", str(made)],
            [compiler, "-shared", str(made), "-o", str(linked), "-lm"],
        ):
            subprocess.run(command, capture_output=True, check=True, timeout=120)
        os.replace(linked, library)


class _Recording(threading.local):
    """The lists of this thread's recording; None where there is none."""

    calls: list[Callable[[], Any]] | None = None
    kept: list[Any]


_RECORDING = _Recording()


@contextmanager
def recording(calls: list[Callable[[], Any]], kept: list[Any]) -> Iterator[None]:
    """What this thread launches inside the block is done and appended to ``calls``; its tensors to
    ``kept``, so that they stay where they are."""
    _RECORDING.calls, _RECORDING.kept = calls, kept
    try:
        yield
    finally:
        _RECORDING.calls = None


def launch(function: Any, *args: Any, refuse: Callable[[int], Exception] | None = None) -> None:
    """Call a compiled function; tensors go by address.

    Args:
        refuse: makes an error of what the function returns, where that is not 0.
    """
    plain = [arg.data_ptr() if isinstance(arg, torch.Tensor) else arg for arg in args]
    status = function(*plain)
    if status:
        assert refuse is not None
        raise refuse(status)
    if _RECORDING.calls is not None:
        _RECORDING.kept.append(args)
        _RECORDING.calls.append(_again(function, plain, refuse))


def _again(
    function: Any, plain: list[Any], refuse: Callable[[int], Exception] | None
) -> Callable[[], None]:
    args = [kind(arg) for kind, arg in zip(function.argtypes, plain, strict=True)]
    if refuse is None:
        return lambda: function(*args)

    def again() -> None:
        if status := function(*args):
            raise refuse(status)

    return again
