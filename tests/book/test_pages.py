"""The built book in Chromium, from the disk with the network off."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from sphinx_external_toc.parsing import parse_toc_yaml

from tests.book import visit
from tests.book.browser import watched_page

ROOT = Path(__file__).resolve().parents[2]
TOC = ROOT / "_toc.yml"
UNWRITTEN = set(yaml.safe_load(TOC.read_text(encoding="utf-8"))["meta"]["unwritten"] or [])
PAGES = [page for page in parse_toc_yaml(TOC) if page not in UNWRITTEN]
THEMES = ("light", "dark")
# What axe-core finds in the theme, as the book lists it: rule and impact.
KNOWN = dict(
    re.findall(
        r"^\| \[([\w-]+)\]\(https://dequeuniversity\.com/[^)]*\) \| (\w+) \|",
        (ROOT / "book" / "using-this-book.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
)
FETCHING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}

pytestmark = pytest.mark.browser


class Addresses(HTMLParser):
    """What a page fetches, what it links to, and the anchors it offers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.linked: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in FETCHING and (address := values.get(FETCHING[tag])):
            self.fetched.append(address)
        if tag == "a" and (address := values.get("href")):
            self.linked.append(address)
        self.anchors |= {value for key in ("id", "name") if (value := values.get(key))}


@pytest.fixture(scope="module")
def addresses(built_book: Path) -> dict[Path, Addresses]:
    return {
        path: Addresses(path.read_text(encoding="utf-8"))
        for path in built_book.rglob("*.html")
        if "_static" not in path.parts
    }


def is_remote(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme in {"http", "https"}


def patience() -> float:
    """Milliseconds until text and widgets must be there: 3 s, more when others use the machine."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return 3000 * max(1.0, busy)


def test_built_pages_are_those_of_the_toc(built_book: Path) -> None:
    pages = (built_book / "book").rglob("*.html")
    built = {path.relative_to(built_book).with_suffix("").as_posix() for path in pages}
    assert built == set(PAGES)


def test_no_page_names_a_remote_script_style_or_image(addresses: dict[Path, Addresses]) -> None:
    remote = {
        f"{path.name}: {address}"
        for path, page in addresses.items()
        for address in page.fetched
        if is_remote(address)
    }
    assert not remote


def test_no_style_sheet_fetches_from_elsewhere(built_book: Path) -> None:
    for path in built_book.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", text), path


def test_internal_links_lead_somewhere(addresses: dict[Path, Addresses]) -> None:
    dead = []
    for path, page in addresses.items():
        for address in page.linked:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = addresses.get(target)
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and known and anchor not in known.anchors):
                dead.append(f"{path.name}: {address}")
    assert not dead


def test_tables_are_tables(built_book: Path) -> None:
    """Not the Markdown that they are written in, which a cell's output may stay."""
    raw = re.compile(r"\|\s*:?[-–—]+:?\s*\|")
    code = re.compile(r"<(pre|code|script)\b.*?</\1>", re.DOTALL)
    pages = {page: (built_book / f"{page}.html").read_text(encoding="utf-8") for page in PAGES}
    assert not [page for page, text in pages.items() if raw.search(code.sub("", text))]


@pytest.mark.parametrize("number", range(len(PAGES)), ids=PAGES)
def test_page_is_sound_on_a_phone_on_a_screen_and_on_paper(
    built_book: Path, chromium: Any, number: int
) -> None:
    """One visit, offline. Every other page in the other theme; `tests/viz` has a view in both."""
    theme = THEMES[number % 2]
    with watched_page(chromium, viewport=visit.PHONE, color_scheme=theme) as page:
        page.set_default_timeout(patience())
        page.set_default_navigation_timeout(60_000)
        page.goto((built_book / f"{PAGES[number]}.html").as_uri())
        page.locator("h1:visible").first.wait_for()
        visit.wait_for_widgets(page)
        found = [f"phone: {fault}" for fault in visit.on_a_phone(page)]
        found += [f"axe, {theme}: {fault}" for fault in visit.to_axe(page, theme, KNOWN)]
        found += [f"paper: {fault}" for fault in visit.on_paper(page)]
        visit.by_its_phrases(page)
        assert not page.faults, page.faults
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page_name", ["index", "search", "genindex"])
def test_page_that_sphinx_makes_opens_without_a_fault(
    built_book: Path, chromium: Any, page_name: str
) -> None:
    with watched_page(chromium, viewport=visit.SCREEN) as page:
        page.set_default_timeout(patience())
        page.goto((built_book / f"{page_name}.html").as_uri())
        page.locator("h1:visible").first.wait_for()
        page.wait_for_load_state("networkidle")
        assert not page.faults, page.faults


def test_search_works_from_the_disk(built_book: Path, chromium: Any) -> None:
    with watched_page(chromium) as page:
        page.goto(f"{(built_book / 'search.html').as_uri()}?q=mini-sglang")
        page.locator("#search-results li a", has_text="Licences").first.wait_for()
        assert not page.faults, page.faults


def test_most_pages_show_a_view(built_book: Path) -> None:
    texts = [(built_book / f"{page}.html").read_text(encoding="utf-8") for page in PAGES]
    assert sum("application/vnd.jupyter.widget-view+json" in text for text in texts) > 15
