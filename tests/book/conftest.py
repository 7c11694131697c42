"""Fixtures for tests of the book: the built book, throw-away books, Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.book.browser import missing
from tests.book.story import PAGES
from tests.book.throwaway import Book, shared_book

ROOT = Path(__file__).resolve().parents[2]


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return ROOT


@pytest.fixture(scope="session")
def built_book() -> Path:
    """Folder of the built HTML."""
    html = ROOT / "book" / "_build" / "html"
    if not (html / "index.html").is_file():
        missing("the book is not built: run `make book`")
    return html


@pytest.fixture(scope="session")
def story_book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    """The book of story.py, built once."""
    return shared_book(tmp_path_factory, "story", PAGES)


@pytest.fixture
def serve() -> Iterator[Callable[[Path], str]]:
    """Serves folders over HTTP on the loopback address; call it with a folder, get the address."""
    servers = []

    def start(folder: Path) -> str:
        handler = partial(QuietHandler, directory=str(folder))
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
