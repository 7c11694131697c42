"""`make book SOLUTIONS=1`: the book with the solutions and marking guides, for those who teach.

Where the environment has SOLUTIONS=1, a part "For instructors" follows at the end of the contents:
a page for each notebook of `solutions/`, with what is known of each exercise beside it. That book
lies in a folder of its own; the students' one has none of it, and a build that would put it there
ends with an error.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import yaml
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

from minisgl_lite.teaching.assignments import ASSIGNMENTS
from minisgl_lite.teaching.checks import Exercise, load_exercises
from minisgl_lite.teaching.misconceptions import MISCONCEPTIONS

VARIABLE = "SOLUTIONS"
FOLDER = "solutions"
OUTPUT = "instructors"
"""The output's folder; --path-output has to name one of this name."""
CACHE = "book/_build/.jupyter_cache"
"""Outputs of the pages that both books have are computed once."""

MARKER = re.compile(r"^ *### (BEGIN|END) (SOLUTION|MARK SCHEME) *\n?", re.MULTILINE)


def is_wanted() -> bool:
    return os.environ.get(VARIABLE) == "1"


def with_solutions(toc: dict[str, Any]) -> dict[str, Any]:
    """The table of contents of the instructors' book."""
    chapters = [
        {"file": f"{FOLDER}/{name}"} for notebooks in ASSIGNMENTS.values() for name in notebooks
    ]
    return toc | {"parts": [*toc["parts"], {"caption": "For instructors", "chapters": chapters}]}


def add_solutions(app: Sphinx, config: Config) -> None:
    """Sphinx event: the settings are read, the contents not yet."""
    if not is_wanted():
        return
    if OUTPUT not in Path(app.outdir).parts:
        raise ExtensionError(
            f"{VARIABLE}=1 puts the solutions into the book; for students' eyes it is built without"
            f" that. For instructors: make book {VARIABLE}=1"
        )
    root = Path(app.srcdir)
    toc = yaml.safe_load((root / config.external_toc_path).read_text(encoding="utf-8"))
    path = Path(app.outdir).parent / "_toc.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(with_solutions(toc), sort_keys=False), encoding="utf-8")
    config.external_toc_path = str(path)
    config.nb_execution_cache_path = str(root / CACHE)


def readable(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook without the marks that the release goes by, and with each exercise's facts."""
    exercises = load_exercises()
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        name, _, part = cell.get("id", "").rpartition("-")
        if cell["cell_type"] == "code":
            source = MARKER.sub("", source)
        elif part == "answer":
            source = MARKER.sub(heading, source)
        elif part == "text" and name in exercises:
            source += "\n\n" + facts(exercises[name])
        cell["source"] = source
    return notebook


def heading(marker: re.Match[str]) -> str:
    if marker[1] == "END":
        return ""
    return "**An answer**\n\n" if marker[2] == "SOLUTION" else "**Marking guide**\n\n"


def facts(exercise: Exercise) -> str:
    """What a teacher wants to know beside the task, as MyST."""
    lines = [
        f"Objective: {exercise.objective}. Level {exercise.difficulty} of 3.",
        "",
        *(f"- {tag}: {MISCONCEPTIONS[tag]}" for tag in exercise.misconceptions),
        "",
        "Hints, in this order:",
        "",
        *(f"{number}. {hint}" for number, hint in enumerate(exercise.hints, start=1)),
    ]
    title = f"`{exercise.name}`, {exercise.kind}: {exercise.minutes} minutes"
    return "\n".join([f":::{{admonition}} {title}", *lines, ":::"])


def read(app: Sphinx, docname: str, content: list[str]) -> None:
    """Sphinx event: a page's source was opened."""
    if docname.startswith(f"{FOLDER}/"):
        content[0] = json.dumps(readable(json.loads(content[0])))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", add_solutions, priority=890)  # before sphinx-external-toc
    app.connect("source-read", read)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
