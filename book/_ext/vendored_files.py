"""`{vendored-files}`: the list of others' files in the book, made from their manifest."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FOLDER = "book/_static/vendor"
PACKAGE = """
<section class="vendored" aria-label="{name}">
<p><strong>{name} {version}</strong>, {licence}. From: {source}. Changes: {changes}.
Licence text: {texts}.</p>
{files}
</section>
"""
FILES = "<details><summary>{count} with SHA-256</summary><ul>{items}</ul></details>"


def describe(package: dict[str, Any], static: str) -> str:
    """HTML for one package; `static` leads from the page to the static files."""
    texts = ", ".join(
        f'<a href="{static}/vendor/{escape(path)}">{escape(Path(path).name)}</a>'
        for path in package["licence_files"]
    )
    items = "".join(
        f"<li><code>{escape(path)}</code><br><code>{sha256}</code></li>"
        for path, sha256 in package["files"].items()
    )
    number = len(package["files"])
    count = "1 file" if number == 1 else f"{number} files"
    plain = {key: escape(str(package[key])) for key in ("name", "version", "source", "licence")}
    files = FILES.format(count=count, items=items) if number else ""
    return PACKAGE.format(**plain, changes=escape(package["changes"]), texts=texts, files=files)


class VendoredFiles(SphinxDirective):
    """One paragraph per package of the manifest, its files and hashes folded away."""

    def run(self) -> list[nodes.Node]:
        manifest = Path(self.env.srcdir) / FOLDER / "manifest.json"
        self.env.note_dependency(str(manifest))
        static = "../" * self.env.docname.count("/") + "_static"
        packages = json.loads(manifest.read_text(encoding="utf-8"))["packages"]
        html = "".join(describe(package, static) for package in packages)
        return [nodes.raw("", html, format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("vendored-files", VendoredFiles)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
