"""Predictions and quick questions, on a throw-away book: marked when open, all open on paper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.book.browser import watched_page
from tests.book.throwaway import Book, Text, shared_book

QUESTIONS = Text("""
**Predict.** How many?

<details class="choice" name="many"><summary>one <code>page</code></summary>

No, *two*.
</details>
<details class="choice" name="many"><summary>two</summary>

Yes.
</details>

<details data-misconception="m01"><summary>Why <code>two</code>, and what else?</summary>

Because.
</details>
""")
LOOKS = """(card) => {
  const looks = (node) => {
    const { color, backgroundColor, borderColor, boxShadow, fontWeight } = getComputedStyle(node);
    return [color, backgroundColor, borderColor, boxShadow, fontWeight];
  };
  return JSON.stringify([card, card.firstElementChild].map(looks));
}"""

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    return shared_book(tmp_path_factory, "questions", {"asked": [QUESTIONS]})


@pytest.fixture(params=["light", "dark"])
def page(book: Book, chromium: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    size = {"width": 390, "height": 800}
    with watched_page(chromium, viewport=size, color_scheme=request.param) as page:
        page.goto((book.html / "asked.html").as_uri())
        yield page
        assert not page.faults, page.faults


def test_a_question_has_one_choice_and_right_looks_like_wrong(page: Any) -> None:
    wrong, right = page.locator("details.choice").all()
    assert wrong.evaluate(LOOKS) == right.evaluate(LOOKS)
    closed = right.evaluate(LOOKS)
    wrong.locator("summary").click()
    page.mouse.move(0, 0)
    open_wrong = wrong.evaluate(LOOKS)
    assert open_wrong != closed
    right.locator("summary").click()
    page.mouse.move(0, 0)
    assert right.evaluate(LOOKS) == open_wrong
    assert wrong.evaluate(LOOKS) == closed
    assert not wrong.get_by_text("No,").is_visible()


def test_choices_and_questions_are_targets_of_24_pixels_in_one_line_of_text(page: Any) -> None:
    for summary in page.locator(".bd-article summary").all():
        assert 24 <= summary.bounding_box()["height"] <= 80
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_all_is_open_on_paper_and_as_it_was_afterwards(page: Any) -> None:
    page.locator("details.choice summary").first.click()
    page.evaluate(
        "addEventListener('beforeprint', () => {"
        " window.closed = document.querySelectorAll('.bd-article details:not([open])').length; })"
    )
    page.pdf()
    assert page.evaluate("window.closed") == 0
    states = page.locator(".bd-article details").evaluate_all("(all) => all.map((d) => d.open)")
    assert states == [True, False, False]
    names = page.locator("details.choice").evaluate_all("(all) => all.map((d) => d.name)")
    assert names == ["many", "many"]
