"""`{objectives}` and `{misconceptions}`: what a course needs to know, read off the book itself.

Objectives and where they are practised stand in book/_data/objectives.yml; a page or an exercise
that is named there and doesn't exist is a warning, so the book does not build. Where a
misconception is met is read from the marks in the pages (`data-misconception`) and the exercises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from minisgl_lite.teaching.checks import load_exercises
from minisgl_lite.teaching.misconceptions import MISCONCEPTIONS

logger = logging.getLogger(__name__)
MARK = re.compile(r'data-misconception=\\?"(m\d\d)')


def pages_in_order(app: Sphinx) -> list[str]:
    """The book's pages by slug, as a reader meets them."""
    site_map = app.config.external_site_map
    return [name.removeprefix("book/") for name in site_map if name.startswith("book/")]


class CourseTable(SphinxDirective):
    """A table with links to pages in its last column."""

    has_content = False

    def table(self, head: tuple[str, ...], rows: Iterable[tuple[list[str], list[str]]]) -> Any:
        """``rows``: texts of the first columns, and what the last one lists."""
        table = nodes.table(classes=["course-table"])
        group = nodes.tgroup(cols=len(head))
        table += group
        group += [nodes.colspec(colwidth=1) for _ in head]
        group += nodes.thead("", self.row([[nodes.Text(text)] for text in head]))
        body = nodes.tbody()
        group += body
        for texts, places in rows:
            last: list[nodes.Node] = []
            for place in places:
                last += [*([nodes.Text(", ")] if last else []), self.place(place)]
            body += self.row([*([nodes.Text(text)] for text in texts), last])
        return table

    @staticmethod
    def row(cells: Iterable[list[nodes.Node]]) -> nodes.row:
        entries = [nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells]
        return nodes.row("", *entries)

    def place(self, name: str) -> nodes.Node:
        """A link to a page, or an exercise's name."""
        kind, _, exercise = name.partition(":")
        if kind == "exercise":
            if exercise not in load_exercises():
                logger.warning("there is no exercise %s", exercise, location=self.get_location())
            return nodes.literal("", exercise)
        return pending_xref(
            "",
            nodes.inline("", name),
            refdomain="std",
            reftype="doc",
            refdoc=self.env.docname,
            reftarget=f"/book/{name}",
            refexplicit=False,
            refwarn=True,
        )


class Objectives(CourseTable):
    def run(self) -> list[nodes.Node]:
        path = Path(self.env.srcdir) / "book" / "_data" / "objectives.yml"
        self.env.note_dependency(str(path))
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
        rows = [([entry["objective"]], entry["practised"]) for entry in entries]
        return [self.table(("you can", "practised in"), rows)]


class Misconceptions(CourseTable):
    def run(self) -> list[nodes.Node]:
        rows = [([tag, words], self.met(tag)) for tag, words in MISCONCEPTIONS.items()]
        return [self.table(("tag", "what people believe", "met in"), rows)]

    def met(self, tag: str) -> list[str]:
        """Pages with a question that attacks it, then exercises."""
        folder = Path(self.env.srcdir) / "book"
        pages = []
        for slug in pages_in_order(self.env.app):
            path = folder / f"{slug}.ipynb"
            if path.is_file() and tag in MARK.findall(path.read_text(encoding="utf-8")):
                pages.append(slug)
        exercises = load_exercises()
        names = [n for n in exercises.supported_names() if tag in exercises[n].misconceptions]
        return [*pages, *(f"exercise:{name}" for name in names)]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("objectives", Objectives)
    app.add_directive("misconceptions", Misconceptions)
    return {"parallel_read_safe": True}
