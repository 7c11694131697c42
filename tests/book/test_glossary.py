"""The glossary: in order, and each term linked from a page. Sphinx looks for dead links."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
LINK = re.compile(r"\{term\}`([^`<]+?)(?:\s*<([^>]+)>)?`")


def terms() -> list[str]:
    text = (BOOK / "notation.md").read_text(encoding="utf-8").split("```{glossary}")[1]
    lines = text.split("\n```")[0].splitlines()
    return [line.strip("`") for line in lines if line and not line.startswith(" ")]


def linked(text: str) -> set[str]:
    """The terms that a text links to, in lower case."""
    return {" ".join((term or words).split()).lower() for words, term in LINK.findall(text)}


def markdown(path: Path) -> str:
    """A page's prose, of a notebook or of a Markdown file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    cells = json.loads(text)["cells"]
    return "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def test_each_term_is_linked_from_a_page() -> None:
    pages = [path for path in BOOK.iterdir() if path.suffix in (".md", ".ipynb")]
    seen = set().union(*(linked(markdown(p)) for p in pages if p.name != "notation.md"))
    assert [term for term in terms() if term.lower() not in seen] == []


def test_terms_stand_in_order_and_once() -> None:
    words = [term.lower().replace("_", " ") for term in terms()]
    assert words == sorted(set(words))


def test_links_are_found_with_other_words_and_over_a_line_break() -> None:
    assert linked("{term}`Pool`, {term}`pages <page>`, {term}`page\nsize`") == {
        "pool",
        "page",
        "page size",
    }
