"""The instructors' book: solutions as pages; nothing of it in the students' one."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "solutions").glob("*.ipynb"))


@pytest.fixture
def instructors(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    return importlib.import_module("instructors")


def settled(instructors: ModuleType, outdir: Path) -> Any:
    config = SimpleNamespace(external_toc_path="_toc.yml")
    app = SimpleNamespace(outdir=str(outdir), srcdir=str(ROOT))
    instructors.add_solutions(app, config)
    return config


def test_solutions_follow_in_the_contents_when_they_are_asked_for(
    instructors: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outdir = tmp_path / "instructors" / "_build" / "html"
    monkeypatch.delenv("SOLUTIONS", raising=False)
    assert settled(instructors, outdir).external_toc_path == "_toc.yml"
    assert not outdir.parent.exists()
    monkeypatch.setenv("SOLUTIONS", "1")
    made = yaml.safe_load(Path(settled(instructors, outdir).external_toc_path).read_text("utf-8"))
    given = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    assert made["parts"][:-1] == given["parts"] and made["meta"] == given["meta"]
    pages = sorted(chapter["file"] for chapter in made["parts"][-1]["chapters"])
    assert pages == [f"solutions/{path.stem}" for path in SOURCES]


def test_they_are_not_put_into_the_students_book(
    instructors: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOLUTIONS", "1")
    with pytest.raises(ExtensionError, match="make book SOLUTIONS=1"):
        settled(instructors, tmp_path / "book" / "_build" / "html")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_page_has_answers_and_guides_and_no_marks_of_the_release(
    instructors: ModuleType, path: Path
) -> None:
    content = [path.read_text(encoding="utf-8")]
    instructors.read(None, f"solutions/{path.stem}", content)
    cells = {cell["id"]: cell["source"] for cell in json.loads(content[0])["cells"]}
    text = "\n".join(cells.values())
    assert not any(mark in text for mark in ("###", "BEGIN", "MARK SCHEME"))
    assert text.count(":::{admonition}") == sum(name.endswith("-answer") for name in cells)
    if path.stem == "one-step":
        assert "**Marking guide**\n\nFour points, one for each:" in cells["order-of-lookup-answer"]
        assert "- m03: out_loc is a row" in cells["order-of-lookup-text"]
        assert "    start = free.pop(0)" in cells["take-pages-answer"]


def test_other_pages_are_left_alone(instructors: ModuleType) -> None:
    content = ["### BEGIN SOLUTION"]
    instructors.read(None, "book/free-pages", content)
    assert content == ["### BEGIN SOLUTION"]
