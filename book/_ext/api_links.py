"""In a page with views: where the API reference tells of the functions that the views name.

A view says which function does what it shows (`SOURCES` in viz/static/sentences.js). The page gets
their addresses as JSON, and the view makes links of the names. A name that the reference does not
have, or a book without one, has no link.
"""

from __future__ import annotations

import json
import re
from typing import Any

from offline_book import STATE_KEY
from sphinx.application import Sphinx

from minisgl_lite.viz.assets import STATIC

NAMED = re.compile(r'\["[\w/]+\.py", "([\w.]+)"\]')
ELEMENT = "kvv-api"


def named_functions() -> list[str]:
    """`Class.method` of each function that a view can name."""
    text = (STATIC / "sentences.js").read_text(encoding="utf-8")
    return sorted(set(NAMED.findall(text)))


def find_addresses(app: Sphinx, pagename: str) -> dict[str, str]:
    """What the views name -> its address, as seen from the page."""
    found = {}
    objects = app.env.domaindata.get("py", {}).get("objects", {})
    for name in named_functions():
        for full, entry in objects.items():
            if full.startswith("minisgl_lite.") and full.endswith(f".{name}"):
                page = app.builder.get_relative_uri(pagename, entry.docname)
                found[name] = f"{page}#{entry.node_id}"
    return found


def add_addresses(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Sphinx event: a page is written."""
    js_files = getattr(app.env, "nb_metadata", {}).get(pagename, {}).get("js_files", {})
    if STATE_KEY in js_files and (found := find_addresses(app, pagename)):
        body = json.dumps(found, separators=(",", ":"))
        app.add_js_file(None, body=body, type="application/json", id=ELEMENT)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", add_addresses)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
