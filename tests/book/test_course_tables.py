"""Objectives are practised often enough, no tag is unexplained, pages lead to their exercises."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.utils import new_document
from sphinx.addnodes import download_reference

from minisgl_lite.teaching.checks import EXERCISES, load_exercises
from minisgl_lite.teaching.misconceptions import MISCONCEPTIONS

ROOT = Path(__file__).resolve().parents[2]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
ORDER = [
    chapter["file"].removeprefix("book/") for part in TOC["parts"] for chapter in part["chapters"]
]
OBJECTIVES = yaml.safe_load((ROOT / "book/_data/objectives.yml").read_text(encoding="utf-8"))
PAGES = sorted((ROOT / "book").glob("*.ipynb"))
MARK = re.compile(r'data-misconception=\\"(\w+)\\"')


@pytest.mark.parametrize("entry", OBJECTIVES, ids=lambda entry: entry["objective"][:40])
def test_an_objective_is_practised_three_times_once_two_pages_later(entry: dict) -> None:
    places = entry["practised"]
    assert len(places) == len(set(places)) >= 3
    pages = [ORDER.index(place) for place in places if not place.startswith("exercise:")]
    assert max(pages) - pages[0] >= 2
    for place in places:
        kind, _, name = place.partition(":")
        assert kind != "exercise" or name in load_exercises()


def test_every_tag_in_pages_and_exercises_is_explained() -> None:
    used = {tag for page in PAGES for tag in MARK.findall(page.read_text(encoding="utf-8"))}
    exercises = load_exercises()
    for name in exercises.supported_names():
        used |= set(exercises[name].misconceptions)
    assert used <= set(MISCONCEPTIONS)


@pytest.mark.parametrize("tag", MISCONCEPTIONS)
def test_every_misconception_is_attacked_on_a_page(tag: str) -> None:
    assert any(tag in MARK.findall(page.read_text(encoding="utf-8")) for page in PAGES)


def test_every_exercise_practises_an_objective() -> None:
    places = {place for entry in OBJECTIVES for place in entry["practised"]}
    assert places >= {f"exercise:{name}" for name in load_exercises().supported_names()}


# ---- links from pages to exercises ---------------------------------------------------------------


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    return importlib.import_module("course_tables")


def test_every_exercise_is_linked_from_the_page_that_it_names(tables: ModuleType) -> None:
    load_exercises()
    for name in EXERCISES.supported_names():
        assert name in tables.exercises_of(ROOT, EXERCISES[name].page)


def test_each_lesson_has_exercises(tables: ModuleType) -> None:
    lessons = [page for page in ORDER if (ROOT / "book" / f"{page}.ipynb").is_file()]
    # Who calls whom, and how fast, is not built or predicted: these have tasks of their own alone.
    without = [page for page in lessons if not tables.exercises_of(ROOT, page)]
    assert without == ["source-modules", "how-fast"]


def with_links(tables: ModuleType, page: str, *sections: nodes.section, **config: str) -> Any:
    """A page of these sections as the book has it; a path without a folder is no lesson."""
    settings = {"book_repository": "", "book_branch": "main"} | config
    document = new_document("", get_default_settings())
    document.settings.env = SimpleNamespace(
        docname=page,
        srcdir=str(ROOT),
        doc2path=lambda name: f"{name}.ipynb",
        note_dependency=lambda path: None,
        config=SimpleNamespace(**settings),
    )
    document += nodes.section("", nodes.title("", "Page"), *sections)
    tables.ExerciseLinks(document).apply()
    return document


def tasks() -> nodes.section:
    items = nodes.enumerated_list("", nodes.list_item("", nodes.paragraph("", "why?")))
    return nodes.section("", nodes.title("", "Exercises"), items, nodes.paragraph("", "next"))


def test_links_stand_behind_the_tasks_and_lead_to_the_notebook(tables: ModuleType) -> None:
    section = tasks()
    with_links(tables, "book/free-pages", section)
    assert [type(child).__name__ for child in section] == [
        "title", "enumerated_list", "paragraph", "bullet_list", "paragraph",
    ]  # fmt: skip
    (link,) = section.findall(download_reference)
    assert link["reftarget"] == "/exercises/pages-and-slots.ipynb"
    assert section[3].astext() == (
        "exercises/pages-and-slots.ipynb: predict-expansion, 5 minutes; page-slots, 15 minutes;"
        " predict-free-list, 10 minutes"
    )


def test_a_page_without_tasks_has_them_at_its_end(tables: ModuleType) -> None:
    document = with_links(tables, "book/kernels")
    assert "pool-views, 40 minutes" in document[0][-1].astext()


@pytest.mark.parametrize("page", ["book/grading", "solutions/one-step", "index"])
def test_what_is_no_lesson_has_none(tables: ModuleType, page: str) -> None:
    assert not list(with_links(tables, page).findall(download_reference))
