"""Outputs that are never older than the code that made them.

A notebook's cached outputs are found again by its cells alone, so a change in the package would
show old numbers. Here the cache is dropped, and every page read anew, when one of the paths in
`fresh_inputs` or an installed package changed.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

logger = logging.getLogger(__name__)
STAMP = "inputs.sha256"


def digest_inputs(root: Path, inputs: list[str]) -> str:
    """SHA-256 over the inputs' files, the Python version and the installed packages."""
    digest = hashlib.sha256(sys.version.encode())
    packages = {(d.metadata["Name"] or "", d.version) for d in metadata.distributions()}
    digest.update(repr(sorted(packages)).encode())
    for name in inputs:
        path = root / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(file.relative_to(root).as_posix().encode() + b"\0")
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def drop_stale_outputs(app: Sphinx) -> None:
    """Sphinx event: myst-nb has settled where its cache lies."""
    current = digest_inputs(Path(app.srcdir), app.config.fresh_inputs)
    app.fresh_digest = current  # type: ignore[attr-defined]
    cache = Path(app.env.mystnb_config.execution_cache_path)  # type: ignore[attr-defined]
    stamp = cache / STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == current:
        return
    if cache.exists():
        logger.info("The package changed: every notebook is executed anew.")
        shutil.rmtree(cache)
    cache.mkdir(parents=True)
    stamp.write_text(current, encoding="utf-8")


def name_stale_pages(
    app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]
) -> list[str]:
    """Sphinx event: which pages to read again. All, when the inputs changed since the last build.

    The digest lies in the environment, which is stored only after all pages were read.
    """
    current = app.fresh_digest  # type: ignore[attr-defined]
    stale = getattr(env, "fresh_digest", None) != current
    env.fresh_digest = current  # type: ignore[attr-defined]
    return sorted(env.found_docs) if stale else []


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("fresh_inputs", [], "env", [list])
    app.connect("builder-inited", drop_stale_outputs, priority=900)  # after myst-nb
    app.connect("env-get-outdated", name_stale_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
