"""The calculator in Chromium, as a built page mounts it: from the disk, with no kernel."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minisgl_lite.viz.sizing import MODELS, Sizes, calculator, free_bytes, sizes
from tests.book.browser import watched_page

pytestmark = pytest.mark.browser
pytest.importorskip("anywidget")

LOADER = Path(__file__).parents[2] / "book" / "_static" / "widgets.js"
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sizes</title>
</head><body>
<script type="application/vnd.jupyter.widget-state+json">{state}</script>
<script type="application/vnd.jupyter.widget-view+json">{{"model_id": "one"}}</script>
<script>{loader}</script></body></html>
"""


def built(widget: Any) -> str:
    sources = {"esm": str(widget._esm), "css": str(widget._css)}
    traits = {"values": widget.values, "models": widget.models, "_esm": "esm", "_css": "css"}
    state = {"state": {"one": {"model_module": "anywidget", "state": traits}}, "sources": sources}
    body = json.dumps(state).replace("<", "\\u003c")
    return PAGE.format(state=body, loader=LOADER.read_text(encoding="utf-8"))


@pytest.fixture
def tab(chromium: Any, tmp_path: Path) -> Iterator[Any]:
    file = tmp_path / "sizes.html"
    file.write_text(built(calculator()), encoding="utf-8")
    with watched_page(chromium, viewport={"width": 1000, "height": 800}) as page:
        page.goto(file.as_uri())
        page.locator(".kvs-results dd").first.wait_for()
        yield page
        assert not page.faults, page.faults


def answered(tab: Any, term: str) -> int:
    text = tab.locator(f"dt:has-text('{term}') + dd").inner_text()
    return int(re.sub(r"\D.*", "", text.replace(",", "")))


def expected(name: str, **changes: Any) -> Sizes:
    model = next(model for model in MODELS if model.name == name)
    given = {"layers": model.layers, "kv_heads": model.kv_heads, "head_dim": model.head_dim}
    run = {"itemsize": 2, "ranks": 1, "page_size": 16, "memory_ratio": 0.9, "rows": 256}
    lengths = {"input_len": 4000, "output_len": 500}
    all_of_it = {**given, **run, **lengths, **changes}
    free = free_bytes(80, model.billions, all_of_it["itemsize"], all_of_it["ranks"])
    return sizes(**all_of_it, free=free)


def check(tab: Any, found: Sizes) -> None:
    assert answered(tab, "K and V of one token") == found.bytes_per_token
    assert answered(tab, "pages N") == found.num_pages
    assert answered(tab, "tokens on one GPU") == found.tokens
    assert answered(tab, "pages of one request") == found.pages_per_request
    assert answered(tab, "requests at once") == found.admitted


def test_models_and_numbers_give_what_python_gives(tab: Any) -> None:
    check(tab, expected("Llama-3-8B"))
    tab.get_by_label("model", exact=True).select_option("Qwen3-0.6B")
    check(tab, expected("Qwen3-0.6B"))
    tab.get_by_label("page size P").fill("64")
    tab.get_by_label("output tokens").fill("7000")
    tab.get_by_label("ranks").fill("2")
    tab.get_by_label("one number").select_option("1")
    changed = {"page_size": 64, "output_len": 7000, "ranks": 2, "itemsize": 1}
    check(tab, expected("Qwen3-0.6B", **changed))
    row = tab.locator(".kvs-table [aria-current] td").all_inner_texts()
    found = expected("Qwen3-0.6B", **changed)
    wanted = (found.num_pages, found.pages_per_request, found.waste, found.admitted)
    assert row == [f"{n:,}" for n in wanted]


def test_ones_own_shape_is_named_so(tab: Any) -> None:
    tab.get_by_label("layers L").fill("10")
    assert tab.get_by_label("model", exact=True).input_value() == "your numbers"
    check(tab, expected("Llama-3-8B", layers=10))


@pytest.mark.parametrize(
    ("label", "text", "said"),
    [
        ("page size P", "0", "page_size"),
        ("page size P", "", "page_size"),
        ("memory of one GPU, GiB", "2", "hold no page"),
        ("part of what is free", "7", "memory_ratio 7 is not allowed"),
    ],
)
def test_what_is_not_allowed_is_said_and_nothing_else_is(
    tab: Any, label: str, text: str, said: str
) -> None:
    tab.get_by_label(label).fill(text)
    assert said in tab.locator(".kvs-problem").inner_text()
    assert tab.locator(".kvs-results dd").count() == 0
    assert tab.locator(".kvs-table td").count() == 0


def test_it_fits_a_phone(tab: Any) -> None:
    tab.set_viewport_size({"width": 320, "height": 700})
    wide = tab.evaluate("document.documentElement.scrollWidth")
    assert wide <= 320
