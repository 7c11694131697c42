"""What a course needs to know, read off the book itself: tables, and links from pages to exercises.

`{objectives}`, `{misconceptions}` and `{exercises}` are tables. Objectives and where they are
practised stand in book/_data/objectives.yml; a page or an exercise that is named there and doesn't
exist is a warning, so the book does not build. Where a misconception is met is read from the marks
in the pages (`data-misconception`) and the exercises. What is known of an exercise stands in its
module, and which notebook it is in, in exercises/.

Each page of a lesson ends with the exercises that it teaches, or else with those that practise one
of its objectives: no page has to list them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from page_buttons import address_in, colab_address
from sphinx.addnodes import download_reference, pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from minisgl_lite.teaching.assignments import ASSIGNMENTS
from minisgl_lite.teaching.checks import Exercise, load_exercises
from minisgl_lite.teaching.misconceptions import MISCONCEPTIONS

logger = logging.getLogger(__name__)
MARK = re.compile(r'data-misconception=\\?"(m\d\d)')
EXERCISE = "exercise:"
Cell = list[nodes.Node]


# ---- what the tables are made of -----------------------------------------------------------------


def pages_in_order(app: Sphinx) -> list[str]:
    """The book's pages by slug, as a reader meets them."""
    site_map = app.config.external_site_map
    return [name.removeprefix("book/") for name in site_map if name.startswith("book/")]


def objectives_path(root: Path) -> Path:
    return root / "book" / "_data" / "objectives.yml"


def read_objectives(root: Path) -> list[dict[str, Any]]:
    """The entries of objectives.yml, each with `objective` and `practised`."""
    entries: list[dict[str, Any]] = yaml.safe_load(objectives_path(root).read_text("utf-8"))
    return entries


def notebook_path(root: Path, name: str) -> Path:
    return root / "exercises" / f"{name}.ipynb"


def read_notebook(root: Path, name: str) -> dict[str, Any]:
    """A notebook of exercises; an empty one where a book has none."""
    path = notebook_path(root, name)
    text = path.read_text(encoding="utf-8") if path.is_file() else '{"cells": []}'
    notebook: dict[str, Any] = json.loads(text)
    return notebook


@lru_cache(maxsize=4)
def notebooks(root: Path) -> dict[str, list[str]]:
    """The notebooks of exercises/ by assignment, each with its exercises in their order."""
    found = {}
    for name in (name for names in ASSIGNMENTS.values() for name in names):
        ids = [cell["id"] for cell in read_notebook(root, name)["cells"]]
        found[name] = [i.removesuffix("-answer") for i in ids if i.endswith("-answer")]
    return found


def exercises_of(root: Path, page: str) -> list[str]:
    """The exercises that a page teaches; of a page with none, those of its objectives."""
    exercises = load_exercises()
    in_order = [name for names in notebooks(root).values() for name in names]
    if not in_order:
        return []
    own = [name for name in in_order if exercises[name].page == page]
    practised = {
        place.removeprefix(EXERCISE)
        for entry in read_objectives(root)
        if page in entry["practised"]
        for place in entry["practised"]
    }
    return own or [name for name in in_order if name in practised]


def count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


# ---- tables --------------------------------------------------------------------------------------


class CourseTable(SphinxDirective):
    """A table of texts and links."""

    has_content = False

    def table(self, head: tuple[str, ...], rows: Iterable[list[Cell]]) -> nodes.table:
        table = nodes.table(classes=["course-table"])
        group = nodes.tgroup(cols=len(head))
        table += group
        group += [nodes.colspec(colwidth=1) for _ in head]
        group += nodes.thead("", self.row([[nodes.Text(text)] for text in head]))
        group += nodes.tbody("", *map(self.row, rows))
        return table

    @staticmethod
    def row(cells: Iterable[Cell]) -> nodes.row:
        entries = [nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells]
        return nodes.row("", *entries)

    def places(self, names: Iterable[str]) -> Cell:
        """Pages and exercises, separated by commas."""
        found: Cell = []
        for name in names:
            found += [*([nodes.Text(", ")] if found else []), self.place(name)]
        return found

    def place(self, name: str) -> nodes.Node:
        """A link to a page, or an exercise's name."""
        if not name.startswith(EXERCISE):
            return page_link(self.env.docname, name)
        exercise = name.removeprefix(EXERCISE)
        if exercise not in load_exercises():
            logger.warning("there is no exercise %s", exercise, location=self.get_location())
        return nodes.literal("", exercise)

    @property
    def root(self) -> Path:
        return Path(self.env.srcdir)


def page_link(docname: str, slug: str, title: str = "") -> pending_xref:
    """From the page `docname` to another one; its title is put in where none is given."""
    return pending_xref(
        "",
        nodes.inline("", title or slug),
        refdomain="std",
        reftype="doc",
        refdoc=docname,
        reftarget=f"/book/{slug}",
        refexplicit=bool(title),
        refwarn=True,
    )


class Objectives(CourseTable):
    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(objectives_path(self.root)))
        rows = [
            [[nodes.Text(entry["objective"])], self.places(entry["practised"])]
            for entry in read_objectives(self.root)
        ]
        return [self.table(("you can", "practised in"), rows)]


class Misconceptions(CourseTable):
    def run(self) -> list[nodes.Node]:
        rows = [
            [[nodes.Text(tag)], [nodes.Text(words)], self.places(self.met(tag))]
            for tag, words in MISCONCEPTIONS.items()
        ]
        return [self.table(("tag", "what people believe", "met in"), rows)]

    def met(self, tag: str) -> list[str]:
        """Pages with a question that attacks it, then exercises."""
        pages = []
        for slug in pages_in_order(self.env.app):
            path = self.root / "book" / f"{slug}.ipynb"
            if path.is_file() and tag in MARK.findall(path.read_text(encoding="utf-8")):
                pages.append(slug)
        exercises = load_exercises()
        names = [n for n in exercises.supported_names() if tag in exercises[n].misconceptions]
        return [*pages, *(f"{EXERCISE}{name}" for name in names)]


class Exercises(CourseTable):
    """One table for each assignment: what each exercise asks, where it stands, what it takes."""

    head = ("exercise", "you", "notebook", "page", "level", "minutes", "points")

    def run(self) -> list[nodes.Node]:
        made: list[nodes.Node] = []
        for assignment, names in ASSIGNMENTS.items():
            exercises = [(name, each) for name in names for each in self.exercises_in(name)]
            minutes = sum(exercise.minutes for _, exercise in exercises)
            points = sum(exercise.points for _, exercise in exercises)
            total = f": {count(minutes, 'minute')}, {count(points, 'point')}"
            made.append(nodes.paragraph("", "", nodes.strong("", assignment), nodes.Text(total)))
            made.append(self.table(self.head, (self.line(*each) for each in exercises)))
        return made

    def exercises_in(self, notebook: str) -> Iterator[Exercise]:
        self.env.note_dependency(str(notebook_path(self.root, notebook)))
        known = load_exercises()
        return (known[name] for name in notebooks(self.root)[notebook])

    def line(self, notebook: str, exercise: Exercise) -> list[Cell]:
        numbers = (exercise.difficulty, exercise.minutes, exercise.points)
        return [
            [nodes.literal("", exercise.name)],
            [nodes.Text(exercise.objective)],
            [nodes.Text(notebook)],
            [page_link(self.env.docname, exercise.page)],
            *([nodes.Text(str(number))] for number in numbers),
        ]


# ---- links on pages ------------------------------------------------------------------------------


class ExerciseLinks(SphinxTransform):
    """Puts the page's exercises behind the tasks of its section "Exercises", or at its end."""

    default_priority = 800

    def apply(self, **kwargs: Any) -> None:
        folder, _, page = self.env.docname.partition("/")
        root = Path(self.env.srcdir)
        is_lesson = folder == "book" and self.env.doc2path(self.env.docname).endswith(".ipynb")
        if not is_lesson or not (names := exercises_of(root, page)):
            return
        self.env.note_dependency(str(objectives_path(root)))
        for notebook in notebooks(root):
            self.env.note_dependency(str(notebook_path(root, notebook)))
        sections = list(self.document.findall(nodes.section))
        own = [s for s in sections if s.astext().split("\n")[0] == "Exercises"]
        section = (own or sections[:1])[0]
        lists = [i for i, child in enumerate(section) if isinstance(child, nodes.enumerated_list)]
        section.insert(lists[-1] + 1 if own and lists else len(section), self.links(root, names))

    def links(self, root: Path, names: list[str]) -> list[nodes.Node]:
        """A paragraph and a list: each exercise with its notebook."""
        known = load_exercises()
        items = nodes.bullet_list(classes=["page-exercises"])
        for notebook, inside in notebooks(root).items():
            here = [known[name] for name in names if name in inside]
            if here:
                items += nodes.list_item("", nodes.paragraph("", "", *self.item(notebook, here)))
        intro = "With a check that says what differs first, in notebooks of their own:"
        return [nodes.paragraph("", intro), items]

    def item(self, notebook: str, exercises: list[Exercise]) -> Cell:
        file = f"exercises/{notebook}.ipynb"
        found: Cell = [
            download_reference(
                "", "", nodes.literal("", file), reftarget=f"/{file}", refdoc=self.env.docname
            )
        ]
        config = self.env.config
        address = colab_address(config.book_repository, config.book_branch, file)
        if address and address_in(read_notebook(Path(self.env.srcdir), notebook)):
            colab = nodes.reference("", f"{notebook} in Colab", refuri=address, internal=False)
            found += [nodes.Text(" ("), colab, nodes.Text(")")]
        separator = ": "
        for exercise in exercises:
            minutes = f", {count(exercise.minutes, 'minute')}"
            found += [nodes.Text(separator), nodes.literal("", exercise.name), nodes.Text(minutes)]
            separator = "; "
        return found


def forget(app: Sphinx) -> None:
    """Sphinx event: a build begins; notebooks may have changed since the last one."""
    notebooks.cache_clear()


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("objectives", Objectives)
    app.add_directive("misconceptions", Misconceptions)
    app.add_directive("exercises", Exercises)
    app.add_transform(ExerciseLinks)
    app.connect("builder-inited", forget)
    return {"parallel_read_safe": True}
