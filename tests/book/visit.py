"""One visit to a built page, on a phone, on a screen and on paper: what is wrong with it there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.axe import findings, told

PHONE = {"width": 390, "height": 800}
SCREEN = {"width": 1280, "height": 900}
A4 = {"width": 718, "height": 1047}  # CSS pixels between margins of 1 cm

SERIOUS = ("serious", "critical")
SET_THEME = "theme => { document.documentElement.dataset.theme = theme; }"

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


def wait_for_widgets(page: Any) -> int:
    """How many there are; each has drawn something."""
    widgets = page.locator(".static-widget").all()
    for widget in widgets:
        widget.locator(":scope > *").first.wait_for(state="attached")
    return len(widgets)


def on_a_phone(page: Any) -> Iterator[str]:
    """No page is wider than a phone."""
    page.set_viewport_size(PHONE)
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > PHONE["width"]:
        yield f"the page is {wide} wide"


def to_axe(page: Any, theme: str, listed: dict[str, str]) -> Iterator[str]:
    """axe-core finds nothing in a view, nothing serious in what we wrote, nothing unlisted beside.

    ``listed``: impact by rule, what is known of the theme.
    """
    page.set_viewport_size(SCREEN)
    page.evaluate(SET_THEME, theme)
    for one in findings(page):
        ours = "view" in one["places"] or ("text" in one["places"] and one["impact"] in SERIOUS)
        if ours or listed.get(one["id"]) != one["impact"]:
            yield f"{sorted(set(one['places']))} {told([one])}"


def on_paper(page: Any) -> Iterator[str]:
    """No code line, table or widget is cut or wider than the paper.

    As the browser prints: the page was read on a screen, and its scripts don't run again.
    """
    page.set_viewport_size(SCREEN)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    page.evaluate(NOTE_WINDOWS)
    scripts = page.context.new_cdp_session(page)
    scripts.send("Emulation.setScriptExecutionDisabled", {"value": True})
    page.set_viewport_size(A4)
    page.emulate_media(media="print")
    yield from page.evaluate(LOOK)
    page.emulate_media(media="screen")
    page.set_viewport_size(SCREEN)
    scripts.send("Emulation.setScriptExecutionDisabled", {"value": False})


def by_its_phrases(page: Any) -> None:
    """Each phrase that is clicked holds: its view shows the step that the text speaks of."""
    page.emulate_media(reduced_motion="reduce")
    for phrase in page.locator("button.kvv-phrase").all():
        phrase.click()
        phrase.and_(page.locator("[aria-current=step]")).wait_for()
