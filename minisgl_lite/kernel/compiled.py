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
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any, cast

import torch

FLAGS = (
    *("-O3", "-march=native", "-mprefer-vector-width=512", "-ffast-math"),
    *("-fopenmp", "-fPIC", "-Wno-psabi"),
)
COMPILER = "MINISGL_LITE_CC"
"""Environment variable: the C compiler to use; empty means none."""


class Library(ctypes.CDLL):
    """All its functions take one address, of the arguments as ``calls.h`` has them."""

    _func_restype_ = ctypes.c_int64


@cache
def load_library(source: str) -> Library | None:
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


def _build_and_load(compiler: str, source: Path, folder: Path | None) -> Library:
    """Without a ``folder``, in one that is gone afterwards: a loaded library needs no file."""
    if folder is not None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        library = folder / f"{source.stem}-{_digest(compiler, source)}.so"
        if not library.exists():
            _compile(compiler, source, library)
        return Library(str(library))
    with tempfile.TemporaryDirectory() as own:
        _compile(compiler, source, Path(own) / "library.so")
        return Library(str(Path(own) / "library.so"))


def _digest(compiler: str, source: Path) -> str:
    """Of all that the machine code depends on: a home folder may be shared by several machines."""
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=20)
    sources = [path.read_bytes() for path in (source, *sorted(source.parent.glob("*.h")))]
    parts = [*sources, version.stdout, " ".join(FLAGS).encode(), _processor()]
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


@dataclass(frozen=True)
class Call:
    """A call that can be made again. ``args``: 8 bytes each, as ``calls.h`` has them."""

    function: Any
    args: bytes
    refuse: Callable[[int], Exception] | None

    def __call__(self) -> None:
        if status := self.function(self.args):
            assert self.refuse is not None
            raise self.refuse(status)


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
    """Call a function of a library; tensors go by address, None as address 0.

    Args:
        refuse: makes an error of what the function returns, where that is not 0.
    """
    plain = [arg.data_ptr() if isinstance(arg, torch.Tensor) else arg or 0 for arg in args]
    kinds = ["d" if isinstance(arg, float) else "q" for arg in args]
    call = Call(function, struct.pack("".join(kinds), *plain), refuse)
    call()
    if _RECORDING.calls is not None:
        _RECORDING.kept.append(args)
        _RECORDING.calls.append(call)


def joined(calls: Iterable[Callable[[], Any]]) -> list[Callable[[], Any]]:
    """The same calls, with neighbours of compiled functions as one ``Calls`` each."""
    library = load_library("calls.c")
    if library is None:
        return list(calls)
    groups = groupby(calls, key=lambda call: isinstance(call, Call))
    return [
        call
        for compiled, group in groups
        for call in ([Calls(library, cast("Iterable[Call]", group))] if compiled else group)
    ]


class Calls:
    """Compiled functions called one after another, without Python in between: to it, the small
    ones of a step take longer to call than to run.

    Raises, when called, what the first that fails would raise; those after it are not called.
    """

    def __init__(self, library: Library, calls: Iterable[Call]) -> None:
        self.calls = list(calls)
        addresses = [(_address(call.function), _address(call.args)) for call in self.calls]
        self._table = struct.pack(f"{2 * len(self.calls)}P", *chain.from_iterable(addresses))
        self._answer = ctypes.c_int64()
        places = (_address(self._table), len(self.calls), ctypes.addressof(self._answer))
        self._make_all = Call(library.make_calls, struct.pack("3q", *places), self._refusal)

    def __call__(self) -> None:
        self._make_all()

    def _refusal(self, number: int) -> Exception:
        refuse = self.calls[number - 1].refuse
        assert refuse is not None
        return refuse(self._answer.value)


def _address(what: Any) -> int:
    """Of a function, or of the first of some bytes; it is right as long as they live."""
    pointer = ctypes.c_char_p(what) if isinstance(what, bytes) else what
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0
