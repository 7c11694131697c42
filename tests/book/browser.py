"""Chromium for tests of built pages: found, never installed; with CI=true it must be there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
# Without the last three Chromium asks the network for things of its own.
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str | None:
    """Path of a Chromium or Chrome: $CHROMIUM, else what the system has."""
    named = os.environ.get("CHROMIUM")
    found = [named] if named else [path for name in NAMES if (path := shutil.which(name))]
    return next(iter(found), str(MAC) if MAC.exists() else None)


def missing(reason: str) -> None:
    """Skip the test, or fail it where everything must be there (CI=true)."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def open_chromium() -> Iterator[Any]:
    """A running headless browser (playwright's object)."""
    path = find_chromium()
    if path is None:
        missing("no Chromium: install it (Debian: apt-get install chromium) or set CHROMIUM=PATH")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=OPTIONS)
        yield browser
        browser.close()


@dataclass
class Faults:
    """What a page did wrong while it was watched."""

    failed: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)  # addresses on other machines

    def __bool__(self) -> bool:
        return bool(self.failed or self.console or self.fetched)

    def watch(self, page: Any) -> None:
        page.on("requestfailed", lambda r: self.failed.append(f"{r.url} ({r.failure})"))
        page.on("response", lambda r: self._note_response(r))
        page.on("console", lambda m: m.type == "error" and self.console.append(m.text))
        page.on("pageerror", lambda error: self.console.append(str(error)))
        page.on("request", lambda r: self._note_request(r.url))

    def _note_request(self, url: str) -> None:
        local = ("file:", "data:", "blob:", "about:", "http://127.0.0.1:", "http://localhost:")
        if not url.startswith(local):
            self.fetched.append(url)

    def _note_response(self, response: Any) -> None:
        if response.status >= 400:
            self.failed.append(f"{response.url} ({response.status})")


@contextmanager
def watched_page(browser: Any, *, offline: bool = True, **options: Any) -> Iterator[Any]:
    """A page in a context of its own with the network off; `page.faults` says what went wrong."""
    context = browser.new_context(offline=offline, **options)
    page = context.new_page()
    page.faults = Faults()
    page.faults.watch(page)
    yield page
    context.close()
