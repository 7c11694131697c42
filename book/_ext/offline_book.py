"""A book whose pages need no network, and a build that fails when one would.

While a page is read, its widgets are looked up in the state that was saved with them. A page that
holds only anywidgets gets `widgets.js`, a small loader; any other gets the vendored html-manager.
The build ends with an error that names each page where a cell failed, a widget has no saved state
or something would be fetched from elsewhere. The error comes before Sphinx stores what it read, so
the next build finds it again.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
STATE_KEY = "ipywidgets_state"  # the name myst-nb gives the script with the state
LOADER = "widgets.js"
MANAGER = (
    "vendor/requirejs/require.js",
    "offline-manager.js",
    "vendor/npm/@jupyter-widgets/html-manager/dist/embed-amd.js",
)
# Model traits that name other models without drawing them.
UNDRAWN = {"layout", "style", "tooltip"}

# What a browser fetches when it reads the page. A plain link (<a href>) fetches nothing.
FETCHED_TAG = re.compile(
    r"<(?:script|link|img|iframe|source|video|audio|embed|object|use|image)\b[^>]*?"
    r"\b(?:src|href|data|srcset)\s*=\s*[\"']?\s*((?:https?:)?//[^\"'\s>]+)",
    re.IGNORECASE,
)
FETCHED_CSS = re.compile(r"(?:url\(|@import)\s*[\"']?\s*((?:https?:)?//[^\"'\s)]+)", re.IGNORECASE)
FONT_PRELOAD = re.compile(r"<link rel=\"preload\" as=\"font\"[^>]*>\s*")
FETCHED_JS = re.compile(r"(?:\bfrom|\bimport)\s*\(?\s*[\"'](https?://[^\"']+)")


def fetched_addresses(text: str) -> list[str]:
    """Addresses on other machines that a browser would fetch for this HTML, CSS or JS."""
    return [m for rule in (FETCHED_TAG, FETCHED_CSS, FETCHED_JS) for m in rule.findall(text)]


def shown_models(doctree: nodes.document) -> list[str]:
    """Model ids of the widgets that the page's cell outputs show, in order."""
    found = []
    for container in doctree.findall(nodes.container):
        if container.get("mime_type") == WIDGET_VIEW:
            for match in re.finditer(r"<script[^>]*>(.*?)</script>", container.astext(), re.DOTALL):
                found.append(json.loads(match.group(1))["model_id"])
    return found


def add_pictures_without_scripts(doctree: nodes.document) -> None:
    """Where a widget's output has an HTML form too, show that to readers who run no scripts."""
    for bundle in doctree.findall(nodes.container):
        if bundle.get("nb_element") == "mime_bundle":
            forms = {form.get("mime_type"): form for form in bundle.children}
            if WIDGET_VIEW in forms and "text/html" in forms:
                picture = f"<noscript>{forms['text/html'].astext()}</noscript>"
                forms[WIDGET_VIEW].insert(0, nodes.raw("", picture, format="html"))


def is_anywidget(model: dict[str, Any]) -> bool:
    """Whether our loader can draw this model: an anywidget that draws no other widget."""
    state = model["state"]
    children = [v for k, v in state.items() if k not in UNDRAWN and "IPY_MODEL_" in json.dumps(v)]
    return model.get("model_module") == "anywidget" and "_esm" in state and not children


def slim_state(saved: dict[str, Any], shown: list[str]) -> dict[str, Any]:
    """The part of the saved state that our loader reads, each source text once."""
    sources: dict[str, str] = {}
    models = {}
    for model_id in dict.fromkeys(shown):
        model = saved["state"][model_id]
        state = {k: v for k, v in model["state"].items() if k not in UNDRAWN}
        for trait in ("_esm", "_css"):
            text = state.get(trait) or ""
            key = hashlib.sha256(text.encode()).hexdigest()[:16]
            sources[key] = text
            state[trait] = key
        models[model_id] = model | {"state": state}
    return saved | {"state": models, "sources": sources}


def script_body(data: dict[str, Any]) -> str:
    """JSON that can stand inside a <script> element."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def choose_scripts(js_files: dict[str, Any], shown: list[str]) -> list[str]:
    """Put the scripts that the page's widgets need into `js_files`; return what is missing."""
    if STATE_KEY not in js_files:
        return shown
    _, attributes = js_files[STATE_KEY]
    saved = json.loads(attributes["body"])
    missing = [model_id for model_id in shown if model_id not in saved["state"]]
    if missing:
        return missing
    if not shown:  # widgets were made, none is shown
        del js_files[STATE_KEY]
    elif all(is_anywidget(saved["state"][model_id]) for model_id in shown):
        attributes["body"] = script_body(slim_state(saved, shown))
        js_files["widget_loader"] = (LOADER, {"defer": "defer"})
    else:
        for number, path in enumerate(MANAGER):
            js_files[f"widget_manager_{number}"] = (path, {})
    return []


def fetched_by_page(doctree: nodes.document, js_files: dict[str, Any]) -> list[str]:
    """Addresses on other machines that the page's content or its widgets would fetch."""
    texts = [node.astext() for node in doctree.findall(nodes.raw) if "html" in node["format"]]
    if STATE_KEY in js_files:
        saved = json.loads(js_files[STATE_KEY][1]["body"])
        states = [model["state"] for model in saved["state"].values()]
        texts += [str(state.get(trait) or "") for state in states for trait in ("_esm", "_css")]
    found = [address for text in texts for address in fetched_addresses(text)]
    images = [str(node["uri"]) for node in doctree.findall(nodes.image)]
    return found + [uri for uri in images if re.match(r"(https?:)?//", uri)]


def check_page(app: Sphinx, doctree: nodes.document) -> None:
    """Sphinx event: a page was read."""
    docname = app.env.docname
    js_files = getattr(app.env, "nb_metadata", {}).get(docname, {}).get("js_files", {})
    faults: dict[str, list[str]] = app.env.offline_faults  # type: ignore[attr-defined]
    faults[docname] = [
        f"it would fetch {address}" for address in fetched_by_page(doctree, js_files)
    ]
    for model_id in choose_scripts(js_files, shown_models(doctree)):
        faults[docname].append(f"the widget {model_id} has no saved state: it would be blank")
    add_pictures_without_scripts(doctree)


def raise_faults(app: Sphinx, env: BuildEnvironment) -> None:
    """Sphinx event: all pages were read."""
    faults = [
        f"{docname}: {fault}"
        for docname, found in sorted(env.offline_faults.items())  # type: ignore[attr-defined]
        for fault in found
    ]
    for docname, data in sorted(getattr(env, "nb_metadata", {}).items()):
        executed = data.get("exec_data")
        if executed and not executed["succeeded"]:
            faults.append(f"{docname}: a cell raised {executed['error']}")
    if faults:
        raise ExtensionError("this book cannot be published:\n  " + "\n  ".join(faults))


def start(app: Sphinx) -> None:
    """Sphinx event: the environment is there."""
    app.env.offline_faults = {}  # type: ignore[attr-defined]


def drop_scripts(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Sphinx event: drop Thebe, which loads from a CDN, and scripts that stand twice."""
    seen = set()
    kept = []
    for script in context["script_files"]:
        body = script.attributes.get("body") or ""
        name = str(script.filename or "")
        if "thebe" in name or "THEBE_JS_URL" in body or (name, body) in seen:
            continue
        seen.add((name, body))
        kept.append(script)
    context["script_files"] = kept


def drop_font_preloads(app: Sphinx, exception: Exception | None) -> None:
    """Sphinx event: the pages are written. Drop hints that a browser refuses for files from disk.

    The theme that Python 3.10 gets preloads its fonts so; they load without the hint.
    """
    if exception is None and app.builder.format == "html":
        for path in Path(app.outdir).rglob("*.html"):
            text = path.read_text(encoding="utf-8")
            if 'as="font"' in text:
                path.write_text(FONT_PRELOAD.sub("", text), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", start)
    app.connect("doctree-read", check_page)
    app.connect("env-updated", raise_faults, priority=100)
    app.connect("html-page-context", drop_scripts, priority=900)  # after those who add scripts
    app.connect("build-finished", drop_font_preloads)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
