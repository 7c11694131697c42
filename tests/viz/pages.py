"""A bare page that holds one view: no book, no notebook, no network."""

from __future__ import annotations

import html
import json
from typing import Any

from minisgl_lite.viz import assets

_PAGE = """<!doctype html>
<html lang="en" data-theme="{theme}"><head><meta charset="utf-8"><title>A view</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{css} body {{ margin: 12px; {body} }}</style></head>
<body><main><h1>A page</h1><div id="here"></div></main>
<script type="application/json" id="state">{state}</script>
<script type="text/plain" id="esm">{esm}</script>
<script>
// A kernel that the test plays: what the view sends lands in `sent`, `answer` goes back to it.
const state = JSON.parse(document.getElementById("state").textContent);
const text = document.getElementById("esm").textContent;
const url = URL.createObjectURL(new Blob([text], {{ type: "text/javascript" }}));
const handlers = new Set();
window.sent = [];
window.answer = (message) => handlers.forEach((fn) => fn(message));
const model = {{
  get: (name) => state[name],
  on: (name, fn) => name === "msg:custom" && handlers.add(fn),
  off: (name, fn) => handlers.delete(fn),
  static: {static},
  send: (message) => window.sent.push(message),
}};
const start = performance.now();
window.mount = async (el) => (await import(url)).default.render({{ model, el }});
window.mount(document.getElementById("here")).then((stop) => {{
  window.stop = stop;
  const drawn = () => (window.ready = performance.now() - start);
  requestAnimationFrame(() => requestAnimationFrame(drawn));
}});
</script></body></html>
"""


def page(view: Any, *, theme: str = "light", static: bool = True, body: str = "") -> str:
    """The page's HTML. ``view``: what ``show`` made."""
    state = json.dumps({"trace": view.trace, "other": view.other, "options": view.options})
    return _PAGE.format(
        theme=html.escape(theme),
        css=assets.css(),
        body=body,
        state=state.replace("<", "\\u003c"),
        esm=assets.esm(),
        static=json.dumps(static),
    )
