"""The API reference holds every package, and every public name once."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import minisgl_lite

BOOK = Path(__file__).resolve().parents[2] / "book"
# No reader calls these: the command line and what it measures have --help, the catalogue is data.
WITHOUT = {"minisgl_lite.__main__", "minisgl_lite.bench", "minisgl_lite.cli", "minisgl_lite.text"}
SHOWN = [
    module
    for path in sorted((BOOK / "api").glob("*.md"))
    for module in re.findall(r"^\.\. api-module:: (\S+)$", path.read_text("utf-8"), re.MULTILINE)
]


def test_every_package_is_in_the_reference() -> None:
    there = {
        f"minisgl_lite.{module.name}" for module in pkgutil.iter_modules(minisgl_lite.__path__)
    }
    assert there - WITHOUT == {name for name in SHOWN if name.count(".") == 1}
    assert len(SHOWN) == len(set(SHOWN))


def test_every_package_is_in_the_table_of_the_first_page() -> None:
    listed = re.findall(r"\{py:mod\}`(\S+?)` \|", (BOOK / "api.md").read_text("utf-8"))
    assert listed == [name for name in listed if name in SHOWN]
    assert {name for name in SHOWN if name.count(".") == 1} == set(listed)


@pytest.mark.browser
@pytest.mark.parametrize("module_name", SHOWN)
def test_every_public_name_has_its_anchor(built_book: Path, module_name: str) -> None:
    """What a package only passes on has its anchor where it comes from."""
    text = "".join(path.read_text("utf-8") for path in (built_book / "book/api").glob("*.html"))
    module = importlib.import_module(module_name)
    for name in getattr(module, "__all__", ()):
        home = getattr(getattr(module, name), "__module__", module_name)
        if home.startswith(module_name):
            assert f'id="{module_name}.{name}"' in text, f"{module_name}.{name}"
