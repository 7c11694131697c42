"""`{mirror-map}`: mini-sglang's modules, and where each of their names is in `minisgl_lite`.

The names come from book/_data/mini_sglang.json, the reasons for what is left out from
book/_data/left_out.yml; what is there is asked of the package itself. A name that is in neither
place is a warning, so the book does not build.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)
# Where a whole module lies elsewhere.
MOVED = {"llm.llm": "llm", "message.backend": "message", "message.tokenizer": "message"}


@dataclass
class Row:
    """One module of mini-sglang: what we have of it, and what we do not."""

    module: str
    ours: str
    same: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # NAME or NAME.MEMBER


def load(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(f"minisgl_lite.{name}")
    except ModuleNotFoundError:
        return None


def has_member(owner: Any, member: str) -> bool:
    """A method or field of the class, or an attribute that its code sets."""
    classes = getattr(owner, "__mro__", ())
    if hasattr(owner, member) or any(member in vars(c).get("__annotations__", {}) for c in classes):
        return True
    ours = [c for c in classes if c.__module__.startswith("minisgl_lite")]
    return any(f"self.{member}" in inspect.getsource(c) for c in ours)


def compare(module: str, names: dict[str, list[str]]) -> Row:
    ours = MOVED.get(module, module)
    row = Row(module, ours)
    loaded = load(ours)
    for name, members in names.items():
        found = getattr(loaded, name, None)
        if found is None:
            row.missing.append(name)
            continue
        row.same.append(name)
        row.missing += [f"{name}.{m}" for m in members if not has_member(found, m)]
    return row


def reasons(path: Path) -> dict[str, str]:
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: group["why"] for group in groups for name in group["names"]}


def code(names: list[str]) -> str:
    return ", ".join(f"<code>{escape(name)}</code>" for name in names)


def prose(text: str) -> str:
    """A reason's words, names between backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def render(row: Row, why: dict[str, str]) -> str:
    """One table row: what is left out stands grouped by its reason."""
    grouped: dict[str, list[str]] = {}
    for name in row.missing:
        grouped.setdefault(why.get(f"{row.module}.{name}", "?"), []).append(name)
    left_out = "<br>".join(f"{code(names)}: {prose(reason)}" for reason, names in grouped.items())
    ours = "the same" if row.ours == row.module else f"<code>{escape(row.ours)}</code>"
    cells = (f"<code>{escape(row.module)}</code>", ours, code(row.same), left_out)
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


HEAD = (
    "<thead><tr><th>mini-sglang</th><th>minisgl_lite</th><th>same names</th>"
    "<th>left out, and why</th></tr></thead>"
)


class MirrorMap(SphinxDirective):
    """The table of all modules."""

    def run(self) -> list[nodes.Node]:
        data = Path(self.env.srcdir) / "book" / "_data"
        names, left_out = data / "mini_sglang.json", data / "left_out.yml"
        for path in (names, left_out):
            self.env.note_dependency(str(path))
        why = reasons(left_out)
        modules = json.loads(names.read_text(encoding="utf-8"))["modules"]
        rows = [compare(module, names) for module, names in modules.items()]
        missing = {f"{row.module}.{name}" for row in rows for name in row.missing}
        for name in sorted(missing - why.keys()):
            logger.warning("mirror map: no %s and no reason", name, location=self.get_location())
        body = "".join(render(row, why) for row in rows)
        table = f'<table class="table mirror-map">{HEAD}<tbody>{body}</tbody></table>'
        return [
            nodes.raw(
                "", f'<div class="pst-scrollable-table-container">{table}</div>', format="html"
            )
        ]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("mirror-map", MirrorMap)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
