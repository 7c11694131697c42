"""A page with a view in it, as a test uses it."""

from __future__ import annotations

from typing import Any

from tests.book.browser import Faults


class Opened:
    """A page with a view in it."""

    def __init__(self, tab: Any, faults: Faults) -> None:
        self.tab, self.faults = tab, faults

    def text(self, selector: str) -> str:
        return self.tab.locator(selector).first.inner_text()

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.tab.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def next(self) -> None:
        self.tab.click(".kvv-next")
        self.settle()

    def frame(self) -> int:
        return int(self.tab.locator(".kvv-slider").input_value())

    def go(self, index: int) -> None:
        self.tab.evaluate(
            "(i) => { const s = document.querySelector('.kvv-slider'); s.value = i;"
            " s.dispatchEvent(new Event('input')); }",
            index,
        )
        self.settle()

    def active(self, panel: str) -> str:
        """The accessible name of a grid's active cell."""
        return self.tab.locator(
            f'.kvv-panel-{panel} [role="gridcell"][tabindex="0"]'
        ).get_attribute("aria-label")
