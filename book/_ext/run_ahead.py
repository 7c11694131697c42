"""Executes a build's notebooks, several at a time, before Sphinx reads its pages one by one.

Outputs go to myst-nb's cache, where it finds them when it reads the page. A page whose cell fails
has none there: it is executed again when it is read, and myst-nb complains about it. Pages in
`run_alone` measure time: each has the machine for itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import ExecutionResult, single_nb_execution
from myst_nb.core.read import create_nb_reader
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

AT_ONCE = min(os.cpu_count() or 1, 4)  # kernels; each may hold a model
THREADS = "OMP_NUM_THREADS"
STAMPS = ("iopub.execute_input", "shell.execute_reply")  # when a cell began, and when it ended


class Page(NamedTuple):
    name: str
    path: Path
    notebook: Any
    read_fmt: dict[str, str] | None

    def run(self, timeout: int) -> ExecutionResult:
        """Execute the notebook in place; each cell notes when it began and ended."""
        folder = str(self.path.parent)
        return single_nb_execution(
            self.notebook, folder, timeout, allow_errors=False, record_timing=True
        )


def without_outputs(app: Sphinx, env: Any, names: Sequence[str], cache: Any) -> Iterator[Page]:
    """The notebooks among these pages that the cache does not hold."""
    for name in names:
        path = Path(env.doc2path(name))
        content = [path.read_text(encoding="utf-8")]
        app.emit("source-read", name, content)  # as it will stand when Sphinx reads it
        reader = create_nb_reader(str(path), env.myst_config, env.mystnb_config, content[0])
        if reader is None:  # a page without cells
            continue
        notebook = reader.read(content[0])
        if not any(cell.cell_type == "code" for cell in notebook.cells):
            continue
        try:
            cache.match_cache_notebook(notebook)
        except KeyError:
            yield Page(name, path, notebook, reader.read_fmt)


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Kernels that begin now share the cores, unless the environment says how many each takes."""
    given = os.environ.get(THREADS)
    os.environ.setdefault(THREADS, "1")
    try:
        yield
    finally:
        if given is None:
            del os.environ[THREADS]


def run_each(pages: Sequence[Page], at_once: int, timeout: int) -> Iterator[Any]:
    """Each page with its result, as they end."""
    with ThreadPoolExecutor(at_once) as pool:
        runs = {pool.submit(page.run, timeout): page for page in pages}
        for run in as_completed(runs):
            yield runs[run], run.result()


def take_times(notebook: Any) -> dict[str, float]:
    """Seconds by cell. They are no part of the page: the cache knows it by its cells as written."""
    seconds = {}
    for cell in notebook.cells:
        if times := cell.metadata.pop("execution", None):
            began, ended = (datetime.fromisoformat(times[key].rstrip("Z")) for key in STAMPS)
            seconds[cell.id] = (ended - began).total_seconds()
    return seconds


def keep(cache: Any, page: Page, result: ExecutionResult) -> None:
    """Put a page's outputs into the cache, as myst-nb does; and how long each cell took."""
    options = {"read_data": page.read_fmt} if page.read_fmt else {}
    record = cache.add_nb_to_project(str(page.path), **options)
    data = {"execution_seconds": result.time, "cells": take_times(result.nb)}
    bundle = CacheBundleIn(result.nb, record.uri, data=data)
    cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def run_ahead(app: Sphinx, env: BuildEnvironment, docnames: Sequence[str]) -> None:
    """Sphinx event: these pages will be read."""
    config: Any = env.mystnb_config  # type: ignore[attr-defined]
    if config.execution_mode != "cache":
        return
    cache = get_cache(config.execution_cache_path)
    pages = list(without_outputs(app, env, docnames, cache))
    alone = [page for page in pages if page.name in app.config.run_alone]
    others = [page for page in pages if page not in alone]

    def results() -> Iterator[Any]:
        yield from run_each(alone, 1, config.execution_timeout)
        with one_thread_each():
            yield from run_each(others, AT_ONCE, config.execution_timeout)

    for number, (page, result) in enumerate(results(), start=1):
        if result.err is None:
            keep(cache, page, result)
        if app.quiet:
            of = f"{number:3} of {len(pages)}"
            print(f"  {of}  {result.time:5.1f} s  {page.name}", flush=True)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("run_alone", [], "env", [list])
    app.connect("env-before-read-docs", run_ahead, priority=400)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
