"""`{step}`: words of the text that move the page's view to a step of its run.

    {step}`the words <first-decode:r1>`
    {step}`the words <prepare:r1 panels=out_loc,page_table pin=8 view=NAME>`

An event's name as `Trace.find` takes it; `panels` are opened, `pin` is a slot, `view` is the `name`
that the view was shown with (without it: the page's first view). The page carries a plain <span>;
`step_phrases.js` makes it a button. A phrase is held against the run that the view carries: an
event that does not happen in it, an unknown panel or view, or a slot outside its pool is a warning,
so the book does not build.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from docutils import nodes
from offline_book import STATE_KEY, shown_models
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from minisgl_lite.trace import Trace
from minisgl_lite.viz.grid import opening
from minisgl_lite.viz.view import PANELS

logger = logging.getLogger(__name__)
FORM = re.compile(r"(?P<words>.+?)\s*<(?P<event>[^\s<>]+)(?P<options>[^<>]*)>\s*", re.DOTALL)
OPTIONS = ("panels", "pin", "view")
SCRIPT = "step_phrases.js"
HINT = "Shows this in the picture"


class step_phrase(nodes.inline):
    """The words, with `event`, `panels`, `pin` and `view` as attributes."""


class StepRole(SphinxRole):
    """Reads the role's text; what it means is checked when the page's views are known."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        match = FORM.fullmatch(self.text)
        pairs = [part.partition("=") for part in match["options"].split()] if match else []
        given = {name: value for name, _, value in pairs}
        if match is None or not all(given.values()) or not set(given) <= set(OPTIONS):
            form = "words <EVENT panels=A,B pin=SLOT view=NAME>"
            logger.warning(
                "step: %r is not of the form %r", self.text, form, location=self.get_location()
            )
            return [nodes.inline(text=self.text)], []
        phrase = step_phrase(self.rawtext, **given, event=match["event"])
        self.set_source_info(phrase)
        for i, part in enumerate(match["words"].split("`")):
            phrase += nodes.literal(text=part) if i % 2 else nodes.Text(part)
        return [phrase], []


@dataclass
class View:
    """A view that the page shows: its options and the run that it opens with."""

    options: dict[str, Any]
    trace: Trace

    @property
    def slots(self) -> int:
        """The pool's slots, the dummy page's included."""
        return int((self.trace.meta["num_pages"] + 1) * self.trace.meta["page_size"])


def page_views(doctree: nodes.document, js_files: dict[str, Any]) -> list[View]:
    """The page's views of runs, in order."""
    if STATE_KEY not in js_files:
        return []
    saved = json.loads(js_files[STATE_KEY][1]["body"])["state"]
    shown = [saved[i]["state"] for i in dict.fromkeys(shown_models(doctree)) if i in saved]
    views = [
        (json.loads(state["options"]), state["trace"])
        for state in shown
        if "trace" in state and "options" in state
    ]
    return [View(options, opening(text, options)) for options, text in views]


def find_view(views: list[View], name: str | None) -> View:
    """The view that a phrase means. Raises ValueError when there is none."""
    if not views:
        raise ValueError("the page shows no view")
    if name is None:
        return views[0]
    found = [view for view in views if view.options.get("name") == name]
    if not found:
        names = [view.options["name"] for view in views if "name" in view.options]
        raise ValueError(f"no view is named {name!r}; named: {', '.join(names) or 'none'}")
    return found[0]


def resolve(phrase: step_phrase, views: list[View]) -> None:
    """Check a phrase and note its view's id. Raises ValueError that says what is wrong."""
    view = find_view(views, phrase.get("view"))
    view.trace.find(phrase["event"])
    for panel in filter(None, phrase.get("panels", "").split(",")):
        if panel not in PANELS:
            raise ValueError(f"panel {panel!r} is not one of: {', '.join(PANELS)}")
    pin = phrase.get("pin", "0")
    if not (pin.isdecimal() and int(pin) < view.slots):
        raise ValueError(f"pin {pin} is not a slot of the pool: 0 to {view.slots - 1}")
    phrase["view-id"] = view.options["id"]


def check_phrases(app: Sphinx, doctree: nodes.document) -> None:
    """Sphinx event: a page was read."""
    metadata = getattr(app.env, "nb_metadata", {}).get(app.env.docname, {})
    views = page_views(doctree, metadata.get("js_files", {}))
    names = [view.options["name"] for view in views if "name" in view.options]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        logger.warning("two views are named %s", ", ".join(twice), location=doctree)
    for phrase in doctree.findall(step_phrase):
        try:
            resolve(phrase, views)
        except ValueError as error:
            logger.warning("step %r: %s", phrase.astext(), error, location=phrase)


def visit_html(self: Any, node: step_phrase) -> None:
    names = ("event", "panels", "pin", "view", "view-id")
    data = {f"data-{name}": node[name] for name in names if name in node}
    data["data-hint"] = HINT
    self.body.append(self.starttag(node, "span", "", CLASS="kvv-phrase", **data))


def depart_html(self: Any, node: step_phrase) -> None:
    self.body.append("</span>")


def add_script(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Sphinx event: a page is written. The script must stand before the views' own."""
    if doctree is not None and any(doctree.findall(step_phrase)):
        app.add_js_file(SCRIPT, priority=400)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_node(step_phrase, html=(visit_html, depart_html))
    app.add_role("step", StepRole())
    app.connect("doctree-read", check_phrases)
    app.connect("html-page-context", add_script)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
