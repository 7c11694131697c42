"""The built book on A4: no code line, table or widget is cut or wider than the paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.book.browser import watched_page
from tests.book.test_pages import PAGES, patience

pytestmark = pytest.mark.browser

SCREEN = {"width": 1280, "height": 900}
A4 = {"width": 718, "height": 1047}  # CSS pixels between margins of 1 cm

# A grid is a window on a large pool or table: what it hides on the screen it hides on paper.
NOTE_WINDOWS = """() => {
    for (const e of document.querySelectorAll(".kvv-grid"))
        if (e.scrollWidth > e.clientWidth + 1) e.dataset.scrolls = "";
}"""
# Everything that hides a part of itself, or ends beyond the paper's edge, in words. Of a request's
# text a view shows the end, on every width.
LOOK = """() => {
    const width = innerWidth, found = [], seen = new Set();
    const name = (e) => `${e.localName}.${e.getAttribute("class") ?? ""} "${
        e.textContent.trim().replace(/\\s+/g, " ").slice(0, 60)}"`;
    const fault = (e) => {
        const box = e.getBoundingClientRect(), style = getComputedStyle(e);
        if (!box.width || !box.height) return null;
        const hides = style.overflowX !== "visible" && e.clientWidth;
        if (hides && e.scrollWidth > e.clientWidth + 1)
            return `shows ${e.clientWidth} of ${e.scrollWidth}`;
        if (hides && e.scrollHeight > e.clientHeight + 2 && e.matches("pre, :has(pre, table)"))
            return `shows ${e.clientHeight} of ${e.scrollHeight}, downwards`;
        if (box.right > width + 1 || box.left < -1)
            return `lies from ${Math.round(box.left)} to ${Math.round(box.right)} of ${width}`;
        return style.animationName === "none" ? null : "is caught while it fades in";
    };
    if (document.documentElement.scrollWidth > width)
        found.push(`the page is ${document.documentElement.scrollWidth} wide`);
    for (const e of document.querySelectorAll("article *")) {
        if (seen.has(e.parentElement)) seen.add(e);  // told already, with what is around it
        else if (e.matches("[data-scrolls], .kvv-text, .kvv-sr")) seen.add(e);
        else if (e.checkVisibility()) {
            const words = fault(e);
            if (words) found.push(`${name(e)} ${words}`) && seen.add(e);
        }
    }
    return found;
}"""


@pytest.fixture(scope="module")
def sheet(chromium: Any) -> Iterator[Any]:
    """One tab for all pages."""
    with watched_page(chromium, viewport=SCREEN) as page:
        page.set_default_navigation_timeout(60_000)  # a page is drawn whole before it is printed
        page.scripts = page.context.new_cdp_session(page)
        yield page


@pytest.mark.parametrize("page_name", PAGES)
def test_nothing_is_cut_on_paper(built_book: Path, sheet: Any, page_name: str) -> None:
    """As the browser prints: the page was read on a screen, and its scripts don't run again."""
    sheet.set_default_timeout(patience())
    sheet.scripts.send("Emulation.setScriptExecutionDisabled", {"value": False})
    sheet.emulate_media(media="screen")
    sheet.set_viewport_size(SCREEN)
    sheet.goto((built_book / f"{page_name}.html").as_uri())
    for widget in sheet.locator(".static-widget").all():
        widget.locator(":scope > *").first.wait_for(state="attached")
    sheet.evaluate("dispatchEvent(new Event('beforeprint'))")
    sheet.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    sheet.evaluate(NOTE_WINDOWS)
    sheet.scripts.send("Emulation.setScriptExecutionDisabled", {"value": True})
    sheet.set_viewport_size(A4)
    sheet.emulate_media(media="print")
    found = sheet.evaluate(LOOK)
    assert not found, "\n".join(found)
