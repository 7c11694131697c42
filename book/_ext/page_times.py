"""In a quiet build (`make book`): one line per page when it was read, with the time it took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


class Clock:
    """Counts the pages that are read."""

    def __init__(self) -> None:
        self.total = self.done = 0
        self.start = 0.0

    def plan(self, app: Sphinx, env: BuildEnvironment, docnames: Sequence[str]) -> None:
        """Sphinx event: these pages will be read."""
        self.total = len(docnames)

    def begin(self, app: Sphinx, docname: str, content: list[str]) -> None:
        """Sphinx event: a page's source was opened."""
        self.start = time.monotonic()

    def end(self, app: Sphinx, doctree: nodes.document) -> None:
        """Sphinx event: a page was executed and read."""
        self.done += 1
        if app.quiet:
            seconds = time.monotonic() - self.start
            print(
                f"  {self.done:3} of {self.total}  {seconds:5.1f} s  {app.env.docname}", flush=True
            )


def setup(app: Sphinx) -> dict[str, Any]:
    clock = Clock()
    app.connect("env-before-read-docs", clock.plan)
    app.connect("source-read", clock.begin)
    app.connect("doctree-read", clock.end)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
