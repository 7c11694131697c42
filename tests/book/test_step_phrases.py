"""`{step}` phrases, on a throw-away book: which build, and what they do in the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.book.browser import watched_page
from tests.book.story import RUN
from tests.book.throwaway import Book, Text

FAULTS = {
    "no event": ("words <first-decode:r7>", r"'first-decode:r7' does not happen in this trace"),
    "no such kind": ("words <firstdecode:r1>", r"'firstdecode:r1'.* is not|'firstdecode:r1' does"),
    "no panel": ("words <start panels=requests,queue>", r"panel 'queue' is not one of: requests"),
    "no slot": ("words <start pin=36>", r"pin 36 is not a slot of the pool: 0 to 35"),
    "no number": ("words <start pin=x>", r"pin x is not a slot"),
    "no view": ("words <start view=third>", r"no view is named 'third'; named: second"),
    "no option": ("words <start pane=pool>", r"is not of the form"),
    "no form": ("words without an event", r"is not of the form"),
}


def test_a_phrase_is_a_plain_span_of_text(story_book: Book) -> None:
    page = story_book.read("story")
    spans = re.findall(r'<span class="kvv-phrase" ([^>]*)>(.*?)</span>', page, re.DOTALL)
    words = [re.sub(r"<[^>]+>|\s+", " ", text).strip() for _, text in spans]
    assert words[:3] == ["each prompt takes a page", "their slots", "r2 ends"]
    assert 'data-event="prepare:r1" ' in spans[1][0]
    assert 'data-panels="out_loc,page_table" data-pin="3"' in spans[1][0]
    assert 'data-view="second"' in spans[2][0]
    assert "<code" in spans[3][1]
    assert "step_phrases.js" in page
    assert "step_phrases.js" not in (story_book.html / "index.html").read_text(encoding="utf-8")


def test_phrases_that_mean_nothing_fail_the_build(tmp_path: Path) -> None:
    phrases = [f"{{step}}`{text}`" for text, _ in FAULTS.values()]
    cells = [RUN, Text("\n\n".join(phrases)), "show(trace)", "show(trace, name='second')"]
    twice = ["show(trace, name='same')", "show(trace, name='same')"]
    chosen = "show({'P': trace, 'Q': trace}, variant={'run': 'Q'}, name='chosen')"
    choice = [RUN, chosen, Text("{step}`words <start view=chosen>` {step}`more <evict>`"), *twice]
    pages = {"faulty": cells, "bare": [Text(phrases[0])], "choice": choice}
    book = Book(tmp_path / "book", pages)
    built = book.build("-W", "-n", "--keep-going")
    assert built.returncode != 0
    for fault, (_, message) in FAULTS.items():
        assert re.search(rf"faulty.*{message}", built.stdout), (fault, built.stdout)
    assert "two views are named same" in built.stdout
    assert re.search(r"bare.*the page shows no view", built.stdout)
    assert re.findall(r"choice.*'(.*)': event", built.stdout) == ["more"]


@pytest.fixture
def page(story_book: Book, chromium: Any) -> Iterator[Any]:
    options = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"}
    with watched_page(chromium, **options) as page:
        page.goto((story_book.html / "story.html").as_uri())
        page.wait_for_selector(".kvv-slider >> nth=1")
        yield page
        assert not page.faults, page.faults


def settle(page: Any) -> None:
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def current(page: Any) -> list[str]:
    return page.locator("button.kvv-phrase[aria-current=step]").all_inner_texts()


@pytest.mark.browser
def test_a_phrase_moves_its_view_alone_and_is_marked_while_it_holds(page: Any) -> None:
    first, second = page.locator(".kvv").all()
    phrase = page.get_by_role("button", name="each prompt takes a page")
    phrase.click()
    settle(page)
    assert "allocate" in first.locator(".kvv-phase").inner_text()
    assert "receive" in second.locator(".kvv-phase").inner_text()
    assert current(page) == ["each prompt takes a page"]
    first.locator(".kvv-next").click()
    settle(page)
    assert current(page) == []  # the slots are another phrase, and its slot is not pinned
    first.locator(".kvv-controls button").nth(1).click()
    settle(page)
    assert current(page) == ["each prompt takes a page"]


@pytest.mark.browser
def test_a_phrase_opens_panels_and_pins_a_slot(page: Any) -> None:
    first = page.locator(".kvv").first
    assert not first.locator(".kvv-panel-out_loc").is_visible()
    page.get_by_role("button", name="their slots").focus()
    page.keyboard.press("Enter")
    settle(page)
    assert first.locator(".kvv-panel-out_loc").is_visible()
    assert first.locator(".kvv-mark-pin").first.is_visible()
    assert current(page) == ["their slots"]


@pytest.mark.browser
def test_the_page_scrolls_only_to_a_view_out_of_sight(page: Any) -> None:
    # Most of the first view is in sight, not all of it.
    page.evaluate("scrollBy(0, document.querySelector('.kvv').getBoundingClientRect().top - 400)")
    before = page.evaluate("scrollY")
    page.get_by_role("button", name="each prompt takes a page").click()
    settle(page)
    assert page.evaluate("scrollY") == before
    page.get_by_role("button", name="r2 ends").click()
    settle(page)
    assert page.evaluate("scrollY") > before
    top, bottom = page.evaluate(
        "(({top, bottom}) => [top, bottom])(document.querySelectorAll('.kvv')[1]"
        ".getBoundingClientRect())"
    )
    assert 0 <= top < bottom <= 800
    assert current(page) == ["each prompt takes a page", "r2 ends"]


@pytest.mark.browser
def test_a_click_before_the_view_is_drawn_is_kept(story_book: Book, chromium: Any) -> None:
    with watched_page(chromium) as page:
        # The view's loader waits until the phrase was clicked.
        loader = (story_book.html.parent / "_static" / "widgets.js").read_text(encoding="utf-8")
        held = f"addEventListener('go-on', () => {{ {loader} }});"
        page.route("**/widgets.js*", lambda route: route.fulfill(body=held))
        page.goto((story_book.html / "story.html").as_uri())
        page.get_by_role("button", name="each prompt takes a page").click()
        assert page.locator(".kvv").count() == 0
        page.evaluate("dispatchEvent(new Event('go-on'))")
        page.wait_for_selector("button.kvv-phrase[aria-current=step]")
        assert current(page) == ["each prompt takes a page"]


@pytest.mark.browser
def test_phrases_are_large_enough_and_in_contrast(story_book: Book, chromium: Any) -> None:
    for scheme in ("light", "dark"):
        with watched_page(chromium, color_scheme=scheme) as page:
            page.goto((story_book.html / "story.html").as_uri())
            page.wait_for_selector(".kvv-slider")
            page.get_by_role("button", name="each prompt takes a page").click()
            page.mouse.move(0, 0)
            settle(page)
            for button in page.locator("button.kvv-phrase").all():
                assert button.bounding_box()["height"] >= 24
                colours = button.evaluate(
                    "(b) => [getComputedStyle(b).color, getComputedStyle(b).backgroundColor]"
                )
                assert contrast(*colours) >= 4.5, (scheme, colours)


def contrast(one: str, other: str) -> float:
    """WCAG's contrast of two CSS colours as `rgb(r, g, b)`."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.browser
def test_without_scripts_a_phrase_is_text(story_book: Book, chromium: Any) -> None:
    with watched_page(chromium, java_script_enabled=False) as page:
        page.goto((story_book.html / "story.html").as_uri())
        assert page.locator("span.kvv-phrase").count() == 4
        assert page.locator("button.kvv-phrase").count() == 0
