"""mini-sglang's own modules, imported from a reader's clone, on a machine without a GPU.

Nothing of mini-sglang is part of this package. Its scheduler and managers are imported from a path
that is given at run time and run unchanged. What can't run here is replaced, and nothing else:

- the engine, the compiled kernels, the hub and the process queues by empty stand-ins,
- the compiled key compare by this package's own,
- pinned host memory by ordinary memory, while its code runs and only without CUDA,
- the radix cache's machine clock by a counter, so that equal runs give equal times.

Its log keeps to errors.
"""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from ..kernel import fast_compare_key

COMMIT = "20fcd7f"
"""The commit that this package mirrors and whose behaviours ``published.py`` names."""

PATH_VARIABLE = "MINISGL_PATH"
STAND_INS = ("minisgl.engine", "minisgl.kernel", "minisgl.utils.hf", "minisgl.utils.mp")


def find_clone(path: str | Path | None = None) -> Path:
    """The folder that holds the package ``minisgl``: in ``path``, or in MINISGL_PATH.

    Raises:
        ValueError: no path is given, or no clone lies there.
    """
    given = path or os.environ.get(PATH_VARIABLE)
    if not given:
        raise ValueError(
            f"no clone of mini-sglang is named: give its path, or set {PATH_VARIABLE}."
        )
    for root in (Path(given), Path(given) / "python"):
        if (root / "minisgl" / "scheduler" / "scheduler.py").is_file():
            return root.resolve()
    raise ValueError(f"{given} holds no mini-sglang: the clone, or its folder python, is needed.")


class Minisgl:
    """The modules of one clone; ``load_minisgl`` makes it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        _import_from(root)
        self.core: Any = importlib.import_module("minisgl.core")
        self.message: Any = importlib.import_module("minisgl.message")
        self.radix_cache: Any = importlib.import_module("minisgl.kvcache.radix_cache")
        self.prefill: Any = importlib.import_module("minisgl.scheduler.prefill")
        self.scheduler: Any = importlib.import_module("minisgl.scheduler.scheduler")
        kernel: Any = importlib.import_module("minisgl.kernel")
        kernel.fast_compare_key = fast_compare_key
        for module in (self.prefill, self.scheduler):
            module.logger.setLevel(logging.ERROR)
        distributed = importlib.import_module("minisgl.distributed")
        if distributed.try_get_tp_info() is None:
            distributed.set_tp_info(rank=0, size=1)

    @cached_property
    def commit(self) -> str | None:
        """The clone's commit, in full; None if git can't tell."""
        command = ["git", "-C", str(self.root), "rev-parse", "HEAD"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    @contextmanager
    def current(self, page_size: int) -> Iterator[None]:
        """Inside, its global context is one for ``page_size``; it has one for the whole process."""
        former = self.core._GLOBAL_CTX
        self.core._GLOBAL_CTX = self.core.Context(page_size)
        try:
            yield
        finally:
            self.core._GLOBAL_CTX = former

    @contextmanager
    def on_a_cpu(self, clock: Callable[[], int]) -> Iterator[None]:
        """Inside, its code runs here: no pinned memory, and ``clock`` for its radix cache."""
        with ExitStack() as replaced:
            counter = SimpleNamespace(monotonic_ns=clock)
            replaced.enter_context(patch.object(self.radix_cache, "time", counter))
            if not torch.cuda.is_available():
                for make in ("empty", "tensor"):
                    unpinned = _unpinned(getattr(torch, make))
                    replaced.enter_context(patch.object(torch, make, unpinned))
                itself = patch.object(torch.Tensor, "pin_memory", lambda tensor: tensor)
                replaced.enter_context(itself)
            yield


_LOADED: dict[Path, Minisgl] = {}


def load_minisgl(path: str | Path | None = None) -> Minisgl:
    """Import mini-sglang's scheduler and managers from the clone at ``path`` or MINISGL_PATH.

    Raises:
        ValueError: no clone lies there.
        RuntimeError: this process has imported another ``minisgl`` already.
    """
    root = find_clone(path)
    if root not in _LOADED:
        other = sys.modules.get("minisgl")
        if other is not None:
            where = next(iter(getattr(other, "__path__", ["somewhere else"])))
            raise RuntimeError(f"minisgl is imported from {where} already; use a fresh process.")
        try:
            _LOADED[root] = Minisgl(root)
        except BaseException:
            _forget(root)
            raise
    return _LOADED[root]


def _forget(root: Path) -> None:
    """Undo an import that failed half-way, so that another clone can be named."""
    sys.meta_path[:] = [f for f in sys.meta_path if getattr(f, "root", None) != root]
    for name in [name for name in sys.modules if name.split(".")[0] == "minisgl"]:
        del sys.modules[name]


def _unpinned(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def make_unpinned(*args: Any, pin_memory: bool = False, **kwargs: Any) -> torch.Tensor:
        return make(*args, **kwargs)

    return make_unpinned


def _import_from(root: Path) -> None:
    """Let ``import minisgl`` find the clone from now on: its functions import on their way."""
    sys.meta_path.insert(0, _CloneFinder(root))


class _CloneFinder(MetaPathFinder):
    """Finds the package in the clone, and the modules of ``STAND_INS`` nowhere but here."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "minisgl":
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(self.root / "minisgl")]
            return spec
        return ModuleSpec(fullname, _StandInLoader()) if fullname in STAND_INS else None


class _StandInLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _StandIn(ModuleType):
    """A module that has every name it is asked for: an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})
