"""Fixtures of the views' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minisgl_lite.viz import show
from tests.book.browser import Faults

from .opened import Opened
from .pages import page

CONTEXT = {"reduced_motion", "forced_colors", "color_scheme", "device_scale_factor", "has_touch"}


@pytest.fixture
def open_view(chromium: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens what ``show`` takes, or a widget that is made already, in a page of its own."""
    tabs: list[Any] = []

    def open_it(run: Any, *, size: tuple[int, int] = (1280, 900), **options: Any) -> Opened:
        how = {key: options.pop(key) for key in ("theme", "static", "body") if key in options}
        context = {key: options.pop(key) for key in list(options) if key in CONTEXT}
        widget = run if hasattr(run, "options") else show(run, **options)
        path = tmp_path / f"view{len(tabs)}.html"
        path.write_text(page(widget, **how), encoding="utf-8")
        tab = chromium.new_page(viewport={"width": size[0], "height": size[1]}, **context)
        tabs.append(tab)
        faults = Faults()
        faults.watch(tab)
        tab.goto(path.as_uri())
        tab.wait_for_function("window.ready !== undefined")
        return Opened(tab, faults)

    yield open_it
    for tab in tabs:
        tab.close()
