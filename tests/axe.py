"""axe-core in a page: what it finds there, and where."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

RUN = """async (where) => {
  const found = await axe.run(where ?? document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    resultTypes: ["violations"],
    elementRef: true,
    preload: false, // from file:// it may not read style sheets once more
  });
  const place = (e) => (e?.closest(".kvv") ? "view" : e?.closest("article") ? "text" : "theme");
  return found.violations.map(({ id, impact, nodes }) => ({
    id, impact,
    nodes: nodes.map((node) => [node.target.join(" "), node.failureSummary]),
    places: nodes.map((node) => place(node.element)),
  }));
}"""


def findings(page: Any, where: Any = None) -> list[dict[str, Any]]:
    """Rule, impact and nodes of each finding. ``where``: axe's context; default: the whole page.

    ``places`` says of each node whether it is in a view, in a page's text, or of the theme.
    """
    pytest.importorskip("axe_playwright_python")
    if not page.evaluate("'axe' in window"):
        script = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        page.evaluate(script)
    return list(page.evaluate(RUN, where))


def told(found: list[dict[str, Any]]) -> str:
    """Findings as lines."""
    return "\n".join(
        f"{one['id']} ({one['impact']}): {target}\n    {why}"
        for one in found
        for target, why in one["nodes"][:3]
    )
