"""What each page of Part I and Part II has, read from its notebook."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from minisgl_lite.teaching.misconceptions import MISCONCEPTIONS

ROOT = Path(__file__).resolve().parents[2]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
PAGES = [
    ROOT / f"{chapter['file']}.ipynb"
    for part in TOC["parts"]
    if part["caption"].startswith("Part ")
    for chapter in part["chapters"]
    if chapter["file"] not in (TOC["meta"]["unwritten"] or [])
]
STEP = re.compile(r"\{step\}`[^`]*<[^`]*>`")
DETAILS = re.compile(
    r"<details(?P<tags>[^>]*)>\s*<summary>.*?</summary>(?P<why>.*?)</details>", re.DOTALL
)
SUMMARY = "summary"  # twelve sentences, and questions from all pages
HOW_FAST = "how-fast"  # measures: no run in it is replayed
# Closes the answer to a question to recall.
FROM = re.compile(r"\(\[[^\]]+\]\((?P<page>[\w-]+)\.ipynb\)\)")
ABOUT_THREE = (2, 3, 4)


class Page:
    """A notebook as its cells, and its text as a whole."""

    def __init__(self, cells: list[dict[str, Any]]) -> None:
        self.cells = cells
        self.texts = {
            cell["id"]: "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
        }
        self.text = "\n\n".join(self.texts.values())
        self.code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        self.headings = re.findall(r"^##+ (.*)$", self.text, re.MULTILINE)

    def has_heading(self, words: str) -> bool:
        return any(re.search(words, heading, re.IGNORECASE) for heading in self.headings)

    def quick(self) -> list[tuple[str, str]]:
        """Tag and explanation of each quick question."""
        found = DETAILS.finditer(self.text)
        tagged = [(re.search(r'data-misconception="([^"]*)"', m["tags"]), m["why"]) for m in found]
        return [(tag[1], why) for tag, why in tagged if tag]


def shape_faults(page: Page, slug: str) -> list[str]:
    """What the page lacks."""
    last = list(page.texts.values())[-1]
    closing = last.strip().split("\n\n")[-1]
    stories = [len(STEP.findall(text)) for text in page.texts.values()]
    tags = [tag for tag, _ in page.quick()]
    choices = set(re.findall(r'class="choice" name="([^"]+)"', page.text))
    holds = {
        "its question": "**The question.**" in page.text,
        "time to read": re.search(r"\*Reading time: about \d+ minutes\.\*", page.text),
        "two questions to recall": len(DETAILS.findall(page.texts.get("recall", ""))) == 2,
        "a worked example": page.has_heading("tiny example|the story"),
        "one with a gap": re.search(r"\bgap\b|fill (in|the)", page.text, re.IGNORECASE),
        "one alone": page.has_heading("alone|on your own"),
        "two predictions": len(choices) >= 2,
        "code from its source": re.search(r"\bsource\(", page.code),
        "three marked phrases": slug == HOW_FAST or sum(stories) >= 3,
        "seven at most in one text": slug == SUMMARY or max(stories) <= 7,
        "a what if": re.search(r"what if", page.text, re.IGNORECASE),
        "three or four quick questions": slug == SUMMARY or len(tags) in (3, 4),
        "a why of its own each": all(len(why.split()) > 5 for _, why in page.quick()),
        "known tags": set(tags) <= set(MISCONCEPTIONS),
        "where it stands in mini-sglang": page.has_heading("Where it stands in mini-sglang"),
        "exercises": page.has_heading("^Exercises"),
        "a closing sentence": re.match("[A-Z`]", closing) and not closing.startswith(("#", "1.")),
        "a picture": re.search(r"\b(?:show|compare)\w*\(", page.code),
    }
    return [name for name, held in holds.items() if not held]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_has_all_its_parts(path: Path) -> None:
    page = Page(json.loads(path.read_text(encoding="utf-8"))["cells"])
    assert shape_faults(page, path.stem) == []


def recall_faults(recall: str, slug: str, slugs: list[str]) -> list[str]:
    """Whether its two questions are from the page before, and from about three pages before."""
    number = slugs.index(slug)
    wanted = [{number - 1}, {max(0, number - back) for back in ABOUT_THREE}]
    faults = []
    for answer, pages in zip(DETAILS.finditer(recall), wanted, strict=True):
        names = [slugs[page] for page in sorted(pages)]
        found = FROM.search(" ".join(answer["why"].split()))
        if found is None:
            faults.append(f"names no page; {names} would do")
        elif found["page"] not in names:
            faults.append(f"from {found['page']}, not {names}")
    return faults


@pytest.mark.parametrize("path", PAGES[1:], ids=lambda path: path.stem)
def test_questions_to_recall_are_from_the_page_before_and_from_about_three_before(
    path: Path,
) -> None:
    page = Page(json.loads(path.read_text(encoding="utf-8"))["cells"])
    slugs = [path.stem for path in PAGES]
    assert recall_faults(page.texts["recall"], path.stem, slugs) == []


def test_a_question_from_elsewhere_is_told() -> None:
    ask = "<details><summary>?</summary>\n\nSo. {}\n</details>"
    text = "\n\n".join(ask.format(where) for where in ("([E](e.ipynb))", ""))
    assert recall_faults(text, "f", list("abcdef")) == ["names no page; ['b', 'c', 'd'] would do"]
    assert recall_faults(text, "e", list("abcdef"))[0] == "from e, not ['d']"


def test_each_choice_is_one_of_several_and_one_is_right() -> None:
    for path in PAGES:
        text = Page(json.loads(path.read_text(encoding="utf-8"))["cells"]).text
        names = re.findall(r'class="choice" name="([^"]+)"', text)
        assert all(names.count(name) >= 2 for name in names), path.stem


def test_a_part_that_is_missing_is_named() -> None:
    path = ROOT / "book" / "free-pages.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    without = [cell for cell in cells if cell["id"] not in ("recall", "alone")]
    faults = shape_faults(Page(without), "free-pages")
    assert {"two questions to recall", "one alone"} <= set(faults)
