"""The views in the built book, from the disk, the network off: they show what Python recorded."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from minisgl_lite.trace import Trace
from minisgl_lite.viz.grid import opening
from tests.book.browser import watched_page

pytestmark = pytest.mark.browser

STATE = re.compile(
    r'<script type="application/vnd.jupyter.widget-state\+json">(.*?)</script>', re.DOTALL
)
STEPS = 10


def traces(page: Path) -> list[Trace]:
    """The recorded runs that a built page carries, in order."""
    found = STATE.search(page.read_text(encoding="utf-8"))
    assert found, f"{page.name} has no widget state"
    models = json.loads(html.unescape(found.group(1)))["state"].values()
    states = [model["state"] for model in models if model["state"].get("trace")]
    return [opening(state["trace"], json.loads(state["options"])) for state in states]


def shown(view: Any) -> dict[str, str]:
    """The step's tables as text: a row by its first cell, a list by its title."""
    rows = view.locator(".kvv-tables tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
    )
    lists = view.locator(".kvv-tables > p").all_text_contents()
    return {row[0]: " | ".join(row[1:]) for row in rows} | dict(
        text.split(": ", 1) for text in lists
    )


def check_numbers(view: Any, trace: Trace, index: int) -> None:
    """What stands in the page at frame ``index`` is what Python's replay holds there."""
    state, frame = trace.state_at(index), trace.frames[index]
    where = re.compile(rf"^step {frame['turn']}/\d+ · {frame['sub'] + 1}/\d+$")
    view.locator(".kvv-step", has_text=where).wait_for()  # drawn with the next frame
    cells = shown(view)
    for req in state.reqs.values():
        _, row, *lengths = cells[f"r{req.uid}"].split(" | ")[:5]
        assert lengths == [str(req.cached_len), str(req.device_len), str(req.max_device_len)]
        assert row == ("–" if req.row is None else str(req.row))
    assert cells["free_slots, head first"] == (", ".join(map(str, state.free)) or "none")
    if info := frame.get("batch_info"):
        slots = [int(slot) for slot in re.findall(r"→ (\d+)", cells["out_loc, in model order"])]
        assert slots == [first + i for first, count in info["out_loc"] for i in range(count)]


def test_ten_steps_show_the_numbers_of_the_recorded_run(built_book: Path, chromium: Any) -> None:
    path = built_book / "book" / "write-locations.html"
    toy = next(trace for trace in traces(path) if trace.meta["model"] == "toy")
    with watched_page(chromium, viewport={"width": 1280, "height": 900}) as page:
        page.goto(path.as_uri())
        page.wait_for_selector(".kvv-slider")
        view = page.locator(".kvv").first
        view.locator("summary", has_text="More").click()
        view.get_by_text("Table of this step").click()
        start = toy.find("prepare:r1")
        for index in range(start, start + STEPS):
            check_numbers(view, toy, index)
            view.get_by_role("button", name=re.compile("^Next")).click()
        check_numbers(view, toy, start + STEPS)
        assert not page.faults, page.faults


def test_the_real_run_of_the_model_page_is_smollm2(built_book: Path) -> None:
    """What readers watch is a run of the real model, recorded when the page was executed."""
    real = [t for t in traces(built_book / "book" / "write-locations.html") if t.frames]
    assert {"toy", "smollm2"} <= {trace.meta["model"] for trace in real}


def test_the_landing_page_opens_with_two_requests_in_mid_run(
    built_book: Path, chromium: Any
) -> None:
    """Seen at once, without scrolling: two rows in use, a shared page, slots written now."""
    path = built_book / "book" / "index.html"
    (trace,) = traces(path)
    with watched_page(chromium, viewport={"width": 1280, "height": 720}) as page:
        page.goto(path.as_uri())
        view = page.locator(".kvv")
        view.locator(".kvv-phase", has_text="write").wait_for()
        assert page.locator("button.kvv-phrase[aria-current=step]").count() == 1
        for panel in ("requests", "page_table", "pool"):
            box = view.locator(f".kvv-panel-{panel}").bounding_box()
            assert 0 < box["y"] < box["y"] + box["height"] <= 720
        assert not page.faults, page.faults
    state = trace.state_at(trace.find("forward:r2#2"))
    assert [req.state for req in state.live()] == ["decode", "decode"]
    assert [slot.state for slot in state.slots()[:4]] == ["shared"] * 4
