"""The page in JupyterLab and in Notebook 7, with a live kernel: what is typed there is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from minisgl_lite import LLM, SamplingParams
from tests.lab.conftest import Lab

pytestmark = pytest.mark.lab

NOTEBOOK = "write-locations.ipynb"
PROMPT = "The largest ocean on Earth is"
MAX_TOKENS = 6
RUN_ALL_LIMIT = 180_000  # milliseconds, the model loads and three pictures are drawn
STEP_LIMIT = 60_000


KERNEL = """() => {
  const kernel = window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel;
  const ready = kernel && kernel.connectionStatus === "connected" && kernel.status === "idle";
  return ready ? kernel.id : null;
}"""
"""The notebook's kernel, once it can be asked."""


def run_all_cells(page: Any) -> None:
    """Run the notebook until its live view is there.

    JupyterLab may start a kernel and replace it at once; cells sent to the first are lost. So the
    kernel must stay the same for a second, and the cells are run anew if that was not enough.
    """
    for limit in (RUN_ALL_LIMIT / 3, RUN_ALL_LIMIT / 3, RUN_ALL_LIMIT):
        kernel = None
        while kernel is None or kernel != page.evaluate(KERNEL):
            kernel = page.wait_for_function(KERNEL, timeout=RUN_ALL_LIMIT).json_value()
            page.wait_for_timeout(1000)
        page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells') }")
        try:
            page.wait_for_selector(".kvv-prompt:enabled", timeout=limit)
        except page_timeout():
            continue
        return
    pytest.fail("the live view did not appear")


def page_timeout() -> type[Exception]:
    from playwright.sync_api import TimeoutError

    return TimeoutError


@pytest.fixture(scope="module", params=["lab/tree", "notebooks"])
def page(lab: Lab, chromium: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The notebook open in JupyterLab, or in Notebook 7, all its cells run."""
    if request.param == "notebooks":
        pytest.importorskip("notebook")
    page = chromium.new_page(viewport={"width": 1400, "height": 1000})
    page.goto(lab.url(NOTEBOOK, request.param))
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=RUN_ALL_LIMIT)
    run_all_cells(page)
    yield page
    page.close()


def view(page: Any) -> Any:
    """The live view: the one with a prompt box."""
    return page.locator(".kvv-prompt").locator("xpath=ancestor::*[contains(@class,'kvv')][last()]")


def answers(page: Any) -> list[str]:
    """What each request of the live view has been told so far, as text."""
    texts = (
        view(page)
        .locator(".kvv-req")
        .evaluate_all(
            "rows => rows.map(row => [...row.querySelectorAll('.kvv-out')]"
            ".map(piece => piece.textContent).join(''))"
        )
    )
    return [text.replace("␣", " ").replace("↵", "\n") for text in texts]


def test_every_cell_ran_without_an_error(page: Any) -> None:
    assert page.locator(".jp-RenderedText[data-mime-type*=stderr]").count() == 0
    assert page.locator(".jp-OutputArea-output:has-text('Traceback')").count() == 0


def test_a_typed_prompt_gets_the_tokens_of_a_separate_engine(page: Any) -> None:
    live = view(page)
    live.locator(".kvv-prompt").fill(PROMPT)
    live.locator(".kvv-live .kvv-num").first.fill(str(MAX_TOKENS))
    live.get_by_role("button", name="Add", exact=True).click()
    live.get_by_role("button", name="Run", exact=True).click()
    with LLM("smollm2", page_size=4, num_pages=16) as llm:
        params = SamplingParams(max_tokens=MAX_TOKENS)
        expected = llm.generate([PROMPT], params)[0]["text"]
    page.wait_for_function(
        "text => [...document.querySelectorAll('.kvv-req')].some(row =>"
        " [...row.querySelectorAll('.kvv-out')].map(p => p.textContent).join('')"
        ".replaceAll('␣', ' ').replaceAll('↵', '\\n') === text)",
        arg=expected,
        timeout=STEP_LIMIT,
    )
    assert expected in answers(page)


def test_a_live_request_is_aborted(page: Any) -> None:
    live = view(page)
    live.locator(".kvv-prompt").fill(PROMPT)
    live.locator(".kvv-live .kvv-num").first.fill("40")
    live.get_by_role("button", name="Add", exact=True).click()
    live.get_by_role("button", name="Step", exact=True).click()
    aborting = live.get_by_role("button", name="Abort r")
    aborting.last.wait_for(timeout=STEP_LIMIT)
    uid = aborting.last.get_attribute("aria-label").split()[-1]
    aborting.last.click()
    live.get_by_role("button", name="Step", exact=True).click()
    row = live.locator(".kvv-req", has_text=f"{uid}")
    row.locator(".kvv-state", has_text="aborted").last.wait_for(timeout=STEP_LIMIT)


def test_a_killed_kernel_is_told_and_the_steps_are_kept(page: Any) -> None:
    """The last test of its page: its kernel is gone afterwards."""
    live = view(page)
    slider = live.locator(".kvv-slider")
    steps = int(slider.get_attribute("max"))
    assert steps > 0
    live.locator(".kvv-prompt").fill(PROMPT)
    live.get_by_role("button", name="Add", exact=True).click()
    live.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_function(
        "steps => Number(document.querySelector('.kvv:has(.kvv-prompt) .kvv-slider').max) > steps",
        arg=steps,
        timeout=STEP_LIMIT,
    )
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    told = live.locator(".kvv-status", has_text="recorded steps are kept")
    told.wait_for(timeout=STEP_LIMIT)
    kept = int(slider.get_attribute("max"))
    assert kept > steps
    slider.focus()
    page.keyboard.press("Home")
    page.wait_for_timeout(200)
    assert int(slider.input_value()) == 0
    page.keyboard.press("End")
    page.wait_for_timeout(200)
    assert int(slider.input_value()) == kept
