"""_toc.yml lists every page, each once, and says which are not written yet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from sphinx_external_toc.parsing import parse_toc_yaml

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = (".ipynb", ".md")


def listed() -> list[str]:
    return list(parse_toc_yaml(ROOT / "_toc.yml"))


def unwritten() -> list[str]:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return list(toc["meta"]["unwritten"] or [])


def written() -> list[str]:
    return [page for page in listed() if page not in unwritten()]


def test_each_page_is_listed_once() -> None:
    """The parser refuses a page that is listed twice; the text is read as well."""
    text = (ROOT / "_toc.yml").read_text(encoding="utf-8").partition("meta:")[0]
    pages = re.findall(r"(?:file|root): (\S+)", text)
    assert sorted(pages) == sorted(set(pages)) == sorted(listed())


def test_a_page_is_its_slug() -> None:
    for page in listed():
        assert re.fullmatch(r"book/(api/)?[a-z]+(-[a-z]+)*", page), page


@pytest.mark.parametrize("page", written())
def test_written_page_has_one_file(page: str) -> None:
    files = [ROOT / f"{page}{suffix}" for suffix in SUFFIXES]
    assert sum(file.is_file() for file in files) == 1


def test_unwritten_pages_are_listed_and_have_no_file() -> None:
    for page in unwritten():
        assert page in listed()
        for suffix in SUFFIXES:
            assert not (ROOT / f"{page}{suffix}").exists(), f"take {page} off the unwritten list"


def test_every_file_of_a_page_is_listed() -> None:
    folders = (ROOT / "book", ROOT / "book" / "api")
    files = {path for suffix in SUFFIXES for each in folders for path in each.glob(f"*{suffix}")}
    assert {path.relative_to(ROOT).with_suffix("").as_posix() for path in files} == set(written())


def test_every_page_of_the_plan_has_its_place() -> None:
    pages = {page.removeprefix("book/") for page in listed()}
    chapter = """learning-objectives source-modules four-questions per-layer-reads prefix-policies
        pool-dimensions free-pages page-table request-lengths prefill-admission write-locations
        write-then-read reuse-and-release summary"""
    beyond = """page-size radix-tree chunked-prefill cuda-graph-padding overlap-scheduling
        tensor-parallel kernels bugs-in-the-wild sizing beyond-this-engine how-fast"""
    around = """index using-this-book notation map api trace-format references teaching grading
        licences"""
    reference = {page for page in pages if page.startswith("api/")}
    assert pages - reference == {*chapter.split(), *beyond.split(), *around.split()}
