"""The marker of tests that compare with mini-sglang itself."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "reference: compares with a clone of mini-sglang, named by MINISGL_PATH"
    )
