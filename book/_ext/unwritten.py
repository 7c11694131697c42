"""Pages that stand in _toc.yml before they are written.

`meta: {unwritten: [...]}` in _toc.yml names them. They are left out of the build, so that all
addresses are fixed from the start and a page is added by writing it and taking its name off the
list. A page that is neither there nor on the list fails the build.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError
from sphinx_external_toc.api import FileItem, SiteMap


def leave_out_unwritten(app: Sphinx, config: Config) -> None:
    """Sphinx event: sphinx-external-toc has read _toc.yml."""
    site_map: SiteMap = config.external_site_map
    unwritten = set((site_map.meta or {}).get("unwritten", []))
    unknown = sorted(unwritten - set(site_map))
    if unknown:
        raise ExtensionError(f"unwritten, but not in _toc.yml: {', '.join(unknown)}")
    for document in site_map.values():
        for tree in document.subtrees:
            tree.items = [
                item
                for item in tree.items
                if not (isinstance(item, FileItem) and item in unwritten)
            ]
        document.subtrees = [tree for tree in document.subtrees if tree.items]
    for docname in unwritten:
        del site_map[docname]
    # A draft that lies there already is left out, too.
    drafts = [f"{name}{suffix}" for name in sorted(unwritten) for suffix in config.source_suffix]
    config.exclude_patterns = [*config.exclude_patterns, *drafts]


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", leave_out_unwritten, priority=950)  # after sphinx-external-toc
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
