"""Objectives are practised often enough, and no tag is used that nobody explains."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from minisgl_lite.teaching.checks import load_exercises
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
