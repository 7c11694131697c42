"""What all tests share: one torch thread, and no context left current by one test for the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from minisgl_lite import core
from tests.book.browser import open_chromium


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "built: reads what the last build of the book left")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def clean_context() -> Iterator[None]:
    """Each test starts and ends with no context current."""
    core._GLOBAL_CTX = None
    yield
    core._GLOBAL_CTX = None


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One headless browser for all tests that open pages."""
    with open_chromium() as browser:
        yield browser
