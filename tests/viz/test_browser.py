"""The view in Chromium, from a file, without network: its numbers are the trace's."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minisgl_lite.toy import Toy
from minisgl_lite.trace import Recorder, Trace
from minisgl_lite.viz import assets, show
from minisgl_lite.viz.driver import LocalDriver
from tests.book.browser import Faults

from .opened import Opened
from .pages import page
from .runs import busy_run, crowded_run, overlapped_run

pytestmark = pytest.mark.browser
pytest.importorskip("anywidget")

ALL = ["requests", "page_table", "pool", "out_loc", "free_slots", "tree", "release", "balance"]


@pytest.fixture(scope="module")
def trace() -> Trace:
    return busy_run()


def tables(view: Opened) -> dict[str, str]:
    """Each request's row of the step's table, and the lists below it, as text."""
    view.tab.evaluate("document.querySelector('.kvv-tables').hidden && 0")
    rows = view.tab.evaluate(
        "() => [...document.querySelectorAll('.kvv-tables tbody tr')]"
        ".map((tr) => [...tr.children].map((td) => td.textContent))"
    )
    lists = view.tab.evaluate(
        "() => [...document.querySelectorAll('.kvv-tables > p')].map((p) => p.textContent)"
    )
    return {row[0]: " | ".join(row[1:]) for row in rows} | {p.split(":")[0]: p for p in lists}


def check_step(view: Opened, trace: Trace) -> None:
    """The numbers in the page are those of Python's replay."""
    index = view.frame()
    state = trace.state_at(index)
    frame = trace.frames[index]
    balance = state.balance()
    assert view.text(".kvv-panel-pool .kvv-note") == (
        f"free {balance.free} + tree {balance.tree} + in flight {balance.in_flight}"
        f" = {balance.total} slots"
    )
    assert f"step {frame['turn']}/" in view.text(".kvv-step")
    shown = tables(view)
    for req in state.reqs.values():
        cells = shown[f"r{req.uid}"].split(" | ")
        assert cells[2:5] == [str(req.cached_len), str(req.device_len), str(req.max_device_len)]
        assert cells[1] == ("–" if req.row is None else str(req.row))
        if req.row is not None:
            assert expand(cells[5]) == state.row(req)
    free = shown["free_slots, head first"].partition(": ")[2]
    assert free == (", ".join(map(str, state.free)) or "none")
    if info := frame.get("batch_info"):
        out = [int(slot) for slot in re.findall(r"→ (\d+)", shown["out_loc, in model order"])]
        assert out == [first + i for first, count in info["out_loc"] for i in range(count)]


def expand(text: str) -> list[int]:
    """``0–3, 7`` as slots."""
    slots: list[int] = []
    for part in [] if text == "none" else text.split(", "):
        first, _, last = part.partition("–")
        slots.extend(range(int(first), int(last or first) + 1))
    return slots


# ---- numbers ---------------------------------------------------------------------------------


def test_ten_steps_show_the_numbers_of_the_trace(open_view: Any, trace: Trace) -> None:
    view = open_view(trace)
    view.tab.click("summary:has-text('More')")
    view.tab.click("text=Table of this step")
    for step in range(10):
        assert view.frame() == step
        check_step(view, trace)
        view.next()
    assert not view.faults, view.faults


@pytest.mark.parametrize("make", [busy_run, overlapped_run])
def test_jumps_show_the_numbers_of_the_trace(open_view: Any, make: Any) -> None:
    trace = make()
    view = open_view(trace, panels=ALL)
    view.tab.click("summary:has-text('More')")
    view.tab.click("text=Table of this step")
    rng = random.Random(4)
    for _ in range(12):
        view.go(rng.randrange(len(trace)))
        check_step(view, trace)
    assert not view.faults, view.faults


def test_the_active_cell_says_what_the_slot_is(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, panels=["pool"], start="forward:r2")
    index = trace.find("forward:r2")
    infos = trace.state_at(index).slots()
    view.tab.focus('.kvv-panel-pool [role="gridcell"][tabindex="0"]')
    for slot, info in enumerate(infos[:-2]):
        name = view.active("pool")
        assert name.startswith(f"slot {slot}, page {slot // 2}, ")
        if info.state == "own":
            uid, position = info.holders[0]
            assert f"r{uid}, position {position}" in name
        assert ("written now" in name) == info.written_now
        assert ("being read" in name) == info.reading
        view.tab.keyboard.press("ArrowRight")


def test_a_freed_slot_says_that_its_old_kv_lies_there(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, panels=["pool"])
    states = [trace.state_at(index).slots()[:-2] for index in range(len(trace))]
    written = [{info.slot for info in slots if info.written_now} for slots in states]
    seen = set()
    for index in (0, trace.find("release"), len(trace) - 1):
        view.go(index)
        view.tab.focus('.kvv-panel-pool [role="gridcell"][tabindex="0"]')
        view.tab.keyboard.press("Home")
        view.tab.keyboard.press("PageUp")
        ever = set().union(*written[: index + 1])
        for slot, info in enumerate(states[index]):
            name = view.active("pool")
            assert name.startswith(f"slot {slot}, ")
            if info.state == "free":
                old = name.endswith("free: its old K/V lies there until it is written over")
                assert old == (slot in ever), name
                seen.add(old)
            view.tab.keyboard.press("ArrowRight")
    assert seen == {False, True}


def test_in_the_accessibility_tree_random_cells_are_what_python_says(
    open_view: Any, trace: Trace
) -> None:
    """As Chromium hands it to a screen reader, not as we wrote the attribute."""
    view = open_view(trace, panels=["pool"])
    devtools = view.tab.context.new_cdp_session(view.tab)
    rng = random.Random(3)
    for index in rng.sample(range(len(trace)), 4):
        view.go(index)
        slots = trace.state_at(index).slots()[:-2]
        for info in rng.sample(slots, 3):
            cell = view.tab.locator('.kvv-panel-pool [role="gridcell"][tabindex="0"]')
            cell.focus()
            at = int(view.active("pool").split()[1].rstrip(","))
            for _ in range(abs(info.slot - at)):
                view.tab.keyboard.press("ArrowRight" if at < info.slot else "ArrowLeft")
            nodes = devtools.send("Accessibility.getFullAXTree")["nodes"]
            (focused,) = (
                node
                for node in nodes
                if node["role"]["value"] == "gridcell"
                and any(p["name"] == "focused" and p["value"]["value"] for p in node["properties"])
            )
            name = focused["name"]["value"]
            assert name.startswith(f"slot {info.slot}, page {info.slot // trace.meta['page_size']}")
            if info.state == "own":
                uid, position = info.holders[0]
                assert f"r{uid}, position {position}" in name
            assert ("written now" in name) == info.written_now


def test_on_a_phone_a_pinned_slot_is_told_on_its_tab(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, panels=["pool"], size=(390, 800))
    news = view.tab.locator(".kvv-tab[data-news]", has_text="Slot")
    assert news.count() == 0
    view.tab.locator(".kvv-panel-pool canvas").click(position={"x": 12, "y": 12})
    view.settle()
    assert news.count() == 1
    news.click()
    assert view.text(".kvv-panel-selected").startswith("Slot")
    assert view.tab.locator(".kvv-life li").count() >= 1


def test_it_opens_where_it_is_told_to(open_view: Any, trace: Trace) -> None:
    assert open_view(trace, start="evict").frame() == trace.find("evict")
    assert open_view(trace).frame() == 0


# ---- the timeline ----------------------------------------------------------------------------


def test_keys_act_inside_the_widget_only(open_view: Any, trace: Trace) -> None:
    view = open_view(trace)
    view.tab.keyboard.press("ArrowRight")
    view.settle()
    assert view.frame() == 0
    view.tab.focus(".kvv-slider")
    turns = [frame["turn"] for frame in trace.frames]
    ends = [i for i, turn in enumerate(turns) if turns[i + 1 : i + 2] != [turn]]
    for key, wanted in [
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("PageDown", ends[0]),
        ("PageDown", ends[1]),
        ("PageUp", ends[0]),
        ("Shift+ArrowRight", ends[1]),
        ("End", len(trace) - 1),
        ("Home", 0),
    ]:
        view.tab.keyboard.press(key)
        view.settle()
        assert view.frame() == wanted, key
    assert not view.faults, view.faults


def test_the_slider_says_step_and_sentence(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, start="forward:r1")
    words = view.tab.locator(".kvv-slider").get_attribute("aria-valuetext")
    assert words.startswith("step 1 of ")
    assert "r1 writes slots 0–5 = out_loc[0:6]" in words


def test_a_move_is_spoken_once_and_playing_is_silent(open_view: Any, trace: Trace) -> None:
    view = open_view(trace)
    view.tab.wait_for_timeout(300)
    region = ".kvv-sr[aria-live=polite]"
    assert view.text(region) == "", "nothing is said that the reader did not ask for"
    view.next()
    view.tab.wait_for_function("(s) => document.querySelector(s).textContent !== ''", arg=region)
    assert "r1 takes row" in view.text(region)
    said = view.text(region)
    view.tab.click(".kvv-play")
    view.tab.wait_for_function("document.querySelector('.kvv-slider').value === '3'")
    assert view.text(region) == said
    view.tab.click(".kvv-play")
    view.tab.wait_for_function(
        "([s, old]) => document.querySelector(s).textContent !== old", arg=[region, said]
    )
    assert view.tab.locator("[aria-live], [role=status], output").count() == 1


def test_it_never_plays_by_itself(open_view: Any, trace: Trace) -> None:
    view = open_view(trace)
    view.tab.wait_for_timeout(1200)
    assert view.frame() == 0


def test_moving_by_steps_and_events(open_view: Any, trace: Trace) -> None:
    view = open_view(trace)
    view.tab.select_option(".kvv-controls select", "event")
    view.next()
    view.next()
    assert view.frame() > 1
    view.tab.select_option(".kvv-controls select", "turn")
    view.next()
    index = view.frame()
    assert trace.frames[index + 1]["turn"] == trace.frames[index]["turn"] + 1


# ---- panels ----------------------------------------------------------------------------------


def test_three_panels_open_at_first_and_the_choice_is_remembered(
    open_view: Any, trace: Trace
) -> None:
    view = open_view(trace)
    opened = ".kvv-panel:not([hidden]) .kvv-name"
    assert view.tab.locator(opened).all_inner_texts() == ["Requests", "page_table", "KV pool"]
    view.tab.click(".kvv-tab:has-text('Tree')")
    view.tab.click(".kvv-tab:has-text('KV pool')")
    view.tab.reload()
    view.tab.wait_for_function("window.ready !== undefined")
    assert view.tab.locator(opened).all_inner_texts() == ["Requests", "page_table", "Tree"]


def test_it_opens_low_enough(open_view: Any) -> None:
    toy = Toy(page_size=4, num_pages=8)
    with Recorder(toy) as recorder:
        toy.add("the cat sat on", says="the mat .")
        toy.add("a dog ran", says="to the door")
        toy.add("my owl", says="is here")
        toy.run()
    view = open_view(recorder.trace(), size=(1280, 720))
    for width in (680, 720, 800, 960, 1200):
        view.tab.evaluate("(w) => (document.body.style.maxWidth = w + 'px')", width)
        view.settle()
        view.settle()
        assert view.tab.locator(".kvv").bounding_box()["height"] <= 560, width


WALK = """async (measure) => {
  const slider = document.querySelector(".kvv-slider");
  const found = [];
  for (let i = 0; i <= Number(slider.max); i++) {
    slider.value = i;
    slider.dispatchEvent(new Event("input"));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    found.push(new Function("return " + measure)());
  }
  return found;
}"""


@pytest.mark.parametrize("size", [(390, 844), (720, 900), (850, 900), (1280, 900)])
def test_sentences_fit_their_place_and_frames_do_not_jump(
    open_view: Any, trace: Trace, size: tuple[int, int]
) -> None:
    view = open_view(trace, size=size, panels=ALL)
    seen = view.tab.evaluate(
        WALK,
        "(() => { const s = document.querySelector('.kvv-sentence');"
        " return [s.scrollHeight - s.clientHeight > 1 ? s.textContent : '',"
        " document.querySelector('.kvv').offsetHeight]; })()",
    )
    assert [text for text, _ in seen if text] == []
    assert len({height for _, height in seen}) == 1


def test_a_phone_has_one_column_and_tabs(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, size=(390, 844), has_touch=True)
    tab = view.tab
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.locator(".kvv-panel:not([hidden])").count() == 1
    assert tab.locator('[role="tab"][aria-selected="true"]').all_inner_texts() == ["Requests"]
    tab.locator('[role="tab"]:has-text("KV pool")').tap()
    view.settle()
    assert view.text(".kvv-panel:not([hidden]) .kvv-name") == "KV pool"
    assert tab.locator('[role="tabpanel"]:not([hidden])').count() == 1
    tab.focus('[role="tab"][aria-selected="true"]')
    tab.keyboard.press("ArrowRight")
    assert view.text(".kvv-panel:not([hidden]) .kvv-name") == "out_loc"
    narrow = open_view(trace, size=(320, 700))
    assert narrow.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_targets_are_24_pixels(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, panels=[*ALL, "events", "selected"])
    sizes = view.tab.evaluate(
        "() => [...document.querySelectorAll('.kvv button, .kvv select, .kvv summary')]"
        ".filter((e) => e.offsetParent).map((e) => [e.textContent, e.offsetWidth, e.offsetHeight])"
    )
    assert [s for s in sizes if min(s[1:]) < 24] == []


def test_hovering_links_text_table_and_pool(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, panels=ALL, start="forward:r1")
    view.tab.locator(".kvv-toks bdi").first.hover()
    view.settle()
    for panel in ("page_table", "pool", "out_loc"):
        assert view.tab.locator(f".kvv-panel-{panel} .kvv-mark-hover").count() == 1, panel
    assert view.text(".kvv-hoverline").startswith("slot 0, page 0, r1, position 0")


def test_a_pinned_slot_tells_its_life(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, start="forward:r1")
    view.tab.focus('.kvv-panel-pool [role="gridcell"][tabindex="0"]')
    view.tab.keyboard.press("Enter")
    view.settle()
    life = view.tab.locator(".kvv-life button").all_inner_texts()
    assert life[:7] == [
        "step 1: taken by r1 from the head of free_slots",
        "step 1: written by r1, position 0",
        "step 1: read by r1 in 3 steps, the last is step 7",
        "step 1: registered in the tree by r1",
        "step 1: locked in the tree",
        "step 3: matched by r3: reused",
        "step 3: shared: r1, r3 point at it",
    ]
    view.tab.locator(".kvv-life button").nth(3).click()
    view.settle()
    assert trace.frames[view.frame()]["phase"] == "release"


def test_a_long_life_is_scrolled_by_the_keyboard_and_told_whole(
    open_view: Any, trace: Trace
) -> None:
    view = open_view(trace, start="forward:r1")
    view.tab.focus('.kvv-panel-pool [role="gridcell"][tabindex="0"]')
    view.tab.keyboard.press("Enter")
    view.settle()
    box, entries = view.tab.locator(".kvv-selected"), view.tab.locator(".kvv-life li")
    hidden = box.evaluate("box => box.scrollHeight - box.clientHeight")
    assert hidden > 0
    frame = view.frame()
    box.focus()
    for key, wanted in [("End", hidden), ("Home", 0)]:
        view.tab.keyboard.press(key)
        view.tab.wait_for_function(
            "wanted => Math.abs(document.querySelector('.kvv-selected').scrollTop - wanted) < 2",
            arg=wanted,
        )
        assert view.frame() == frame, "the key scrolls and does not step"
    view.tab.keyboard.press("ArrowRight")
    view.settle()
    assert view.frame() == frame + 1, "what scrolls nothing steps"
    view.go(len(trace) - 1)
    edges = [one.bounding_box() for one in (box, entries.and_(view.tab.locator(".kvv-now")))]
    assert edges[0]["y"] <= edges[1]["y"] + 1
    assert edges[1]["y"] + edges[1]["height"] <= edges[0]["y"] + edges[0]["height"] + 1


def test_a_fault_turns_red_at_its_step_and_slot(open_view: Any, trace: Trace) -> None:
    frames = [dict(frame) for frame in trace.frames]
    text = "r2 reads slot 7, which holds another prefix"
    frames[12]["fault"] = {"kind": "read", "text": text, "uid": 2, "slot": 7}
    view = open_view(Trace(trace.meta, frames, trace.vocab), panels=["pool", "balance"])
    view.tab.click("button:has-text('Fault at step 2')")
    view.settle()
    assert view.frame() == 12
    assert view.text(".kvv-sentence.kvv-bad .kvv-words").startswith(f"FAULT: {text}.")
    view.tab.focus('.kvv-panel-pool [role="gridcell"][tabindex="0"]')
    for _ in range(7):
        view.tab.keyboard.press("ArrowRight")
    assert "at fault here" in view.active("pool")
    assert "The sanitizer found a fault" in view.text(".kvv-panel-balance")


def test_prose_can_move_the_view(open_view: Any, trace: Trace) -> None:
    view = open_view(trace)
    view.tab.evaluate(
        "document.querySelector('.kvv').dispatchEvent(new CustomEvent('kvv-go',"
        " { detail: { event: 'split', panels: ['tree'], pin: 0 } }))"
    )
    view.settle()
    assert view.frame() == trace.find("split")
    assert view.tab.locator(".kvv-panel-tree").is_visible()


def test_in_a_notebook_the_menu_copies_where_to_start(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, panels=["pool"])
    view.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    view.go(trace.find("split"))
    view.settle()
    view.tab.locator("summary", has_text="More").click()
    view.tab.click("button:has-text('Copy start=… for show()')")
    view.tab.wait_for_function("document.querySelector('.kvv-sr').textContent === 'Copied.'")
    assert view.tab.evaluate("navigator.clipboard.readText()") == 'start="split"'


# ---- text ------------------------------------------------------------------------------------


def test_the_menu_saves_the_trace_and_copies_the_sentence(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, start="forward:r1")
    view.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    view.tab.click(".kvv-menu summary")
    with view.tab.expect_download() as waiting:
        view.tab.get_by_role("button", name="Save trace (JSON)").click()
    saved = Path(waiting.value.path())
    named = saved.with_suffix(".json")
    named.write_bytes(saved.read_bytes())
    assert Trace.load(named).digest() == trace.digest()
    view.tab.click(".kvv-menu summary")
    view.tab.get_by_role("button", name="Copy sentence").click()
    view.settle()
    words = view.text(".kvv-words")
    assert words in view.tab.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize("clipboard", ["refuses", "missing"])
@pytest.mark.parametrize("name", ["Copy sentence", "Copy start=… for show()"])
def test_what_the_browser_does_not_copy_stands_selected(
    open_view: Any, trace: Trace, clipboard: str, name: str
) -> None:
    view = open_view(trace, panels=["pool"], start="forward:r1")
    if clipboard == "missing":
        view.tab.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    else:
        view.tab.context.grant_permissions([])  # refuses all that is not named
    view.tab.click(".kvv-menu summary")
    view.tab.get_by_role("button", name=name).click()
    view.tab.wait_for_selector(".kvv-kept textarea")
    view.settle()
    selected = view.tab.evaluate(
        "(() => { const t = document.activeElement;"
        " return t.value.slice(t.selectionStart, t.selectionEnd); })()"
    )
    wanted = view.text(".kvv-words") if name == "Copy sentence" else 'start="forward:r1"'
    assert wanted in selected
    assert "Not copied" in view.text(".kvv-kept")
    assert "Not copied" in view.tab.locator(".kvv-sr").first.text_content()
    view.tab.keyboard.press("Escape")
    assert not view.tab.locator(".kvv-menubox").is_visible()


def test_the_lanes_have_the_words_of_what_happens(open_view: Any, trace: Trace) -> None:
    drawn = """() => {
      window.words = [];
      const write = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        if (this.canvas.matches(".kvv-lanes")) window.words.push(text);
        write.call(this, text, ...place);
      };
    }"""
    view = open_view(trace, panels=["pool"])
    view.tab.evaluate(drawn)
    view.tab.get_by_role("button", name="Events").click()
    view.settle()
    words = view.tab.evaluate("window.words")
    assert {"prefill", "decode", "split", "evict", "release", "abort"} <= set(words)
    assert "end" not in words


def test_with_reduced_motion_it_plays_slower(open_view: Any, trace: Trace) -> None:
    passed = {}
    for motion in ("no-preference", "reduce"):
        view = open_view(trace, reduced_motion=motion)
        view.tab.get_by_role("button", name="Play").click()
        view.tab.wait_for_timeout(2000)
        passed[motion] = view.frame()
    assert 0 < passed["reduce"] < passed["no-preference"]


def test_text_of_prompts_is_text(open_view: Any) -> None:
    toy = Toy(page_size=4, num_pages=16)
    evil = [
        "<script>window.pwned=1</script>",
        "<img/src=x/onerror=pwned=1>",
        "&lt;",
        "日本",
        "مرحبا",
    ]
    with Recorder(toy) as recorder:
        toy.add(" ".join(evil), says="</textarea><b>bold</b> 🎉")
        toy.run()
    view = open_view(recorder.trace(), panels=ALL)
    view.tab.focus(".kvv-slider")
    view.tab.keyboard.press("End")
    view.settle()
    shown = view.text(".kvv-text")
    for word in evil:
        assert word in shown
    assert "</textarea><b>bold</b> 🎉" in shown
    assert view.tab.evaluate("window.pwned") is None
    assert view.tab.locator(".kvv b b, .kvv script, .kvv img").count() == 0
    assert view.tab.locator(".kvv-toks bdi").count() == len(evil) + 2
    assert not view.faults, view.faults


# ---- hosts and readers -----------------------------------------------------------------------


def test_the_host_s_theme_is_followed(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, color_scheme="light")
    theme = "document.querySelector('.kvv').dataset.kvvTheme"
    steps = [
        ("document.documentElement.dataset.theme = 'dark'", "dark"),
        ("document.documentElement.dataset.theme = 'light'", "light"),
        ("delete document.documentElement.dataset.theme", "light"),
        ("document.body.dataset.jpThemeLight = 'false'", "dark"),
        (
            "delete document.body.dataset.jpThemeLight; document.body.className = 'vscode-dark'",
            "dark",
        ),
        ("document.body.className = 'vscode-light'", "light"),
        (
            "document.body.className = ''; document.documentElement.setAttribute('theme', 'dark')",
            "dark",
        ),
    ]
    for script, wanted in steps:
        view.tab.evaluate(f"() => {{ {script} }}")
        view.settle()
        assert view.tab.evaluate(theme) == wanted, script
    dark = open_view(trace, color_scheme="dark", theme="")
    assert dark.tab.evaluate(theme) == "dark"


def test_forced_colours_open_the_table(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, forced_colors="active")
    assert view.tab.locator(".kvv-tables table").first.is_visible()


def test_all_is_reached_by_keyboard_without_a_trap(open_view: Any, trace: Trace) -> None:
    view = open_view(trace, panels=ALL)
    view.tab.focus("summary:has-text('More')")
    seen = []
    for _ in range(60):
        view.tab.keyboard.press("Tab")
        where = view.tab.evaluate(
            "() => { const a = document.activeElement; const p = a.closest('.kvv-panel');"
            " return a === document.body ? null : [a.tagName, a.getAttribute('role'),"
            " a.getAttribute('aria-label') || a.textContent.slice(0, 20),"
            " p && p.className.split('kvv-panel-')[1]]; }"
        )
        if where is None:
            break
        seen.append(where)
    else:
        pytest.fail("the focus never left the widget")
    panels = {entry[3] for entry in seen if entry[1] == "gridcell"}
    assert panels == {"page_table", "pool", "out_loc", "free_slots"} - (
        set() if "out_loc" in panels else {"out_loc"}
    )
    assert all(entry[2] for entry in seen), "something without a name has the focus"


def test_two_views_of_a_page_do_not_disturb_each_other(open_view: Any, trace: Trace) -> None:
    view = open_view(trace)
    view.tab.evaluate(
        "() => { const el = document.body.appendChild(document.createElement('div'));"
        " el.id = 'second'; return window.mount(el); }"
    )
    view.settle()
    view.tab.locator("#second .kvv-next").click()
    view.settle()
    assert view.tab.locator("#here .kvv-slider").input_value() == "0"
    assert view.tab.locator("#second .kvv-slider").input_value() == "1"


def test_a_view_that_is_removed_leaves_nothing(open_view: Any, trace: Trace) -> None:
    view = open_view(trace)
    view.tab.click(".kvv-play")
    view.tab.evaluate("window.stop()")
    view.tab.wait_for_timeout(1200)
    assert view.tab.locator(".kvv").count() == 0
    assert not view.faults, view.faults


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bm90IGRlZmxhdGU=", "This trace cannot be read"),
        ("***", "This trace cannot be read"),
    ],
)
def test_a_broken_trace_is_told_in_its_place(
    open_view: Any, trace: Trace, chromium: Any, tmp_path: Path, text: str, message: str
) -> None:
    broken = show(trace)
    broken.trace = text
    path = tmp_path / "broken.html"
    path.write_text(page(broken), encoding="utf-8")
    tab = chromium.new_page()
    tab.goto(path.as_uri())
    tab.wait_for_selector(".kvv [role=alert]")
    assert message in tab.inner_text(".kvv")
    tab.close()


# ---- live ------------------------------------------------------------------------------------


class Kernel:
    """Plays the kernel: takes what the view sent to the real driver and brings its answers back."""

    def __init__(self, view: Opened, widget: Any) -> None:
        self.view, self.widget = view, widget
        self.seen = 0
        widget.send = lambda content, buffers=None: view.tab.evaluate(
            "(m) => window.answer(m)", json.loads(json.dumps(content))
        )

    def serve(self) -> list[str]:
        """Answer what was sent since the last call; returns the commands."""
        sent = self.view.tab.evaluate("window.sent")[self.seen :]
        self.seen += len(sent)
        for message in sent:
            self.widget._handle_custom_msg(message, [])
        return [message["op"] for message in sent]

    def serve_until(self, done: Any, limit_ms: int = 20_000) -> None:
        for _ in range(limit_ms // 50):
            self.serve()
            if done():
                return
            self.view.tab.wait_for_timeout(50)
        pytest.fail("the run did not get there")


@pytest.fixture
def live(chromium: Any, tmp_path: Path) -> Iterator[tuple[Opened, Kernel]]:
    widget = show(Toy(page_size=4, num_pages=8))
    path = tmp_path / "live.html"
    path.write_text(page(widget, static=False), encoding="utf-8")
    tab = chromium.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    faults = Faults()
    faults.watch(tab)
    tab.goto(path.as_uri())
    tab.wait_for_function("window.ready !== undefined")
    view = Opened(tab, faults)
    kernel = Kernel(view, widget)
    assert kernel.serve() == ["history"]
    yield view, kernel
    tab.close()


def add(view: Opened, kernel: Kernel, prompt: str, max_tokens: int) -> None:
    view.tab.fill(".kvv-prompt", prompt)
    view.tab.fill("input[id^=kvv-max]", str(max_tokens))
    view.tab.click("button:text-is('Add')")
    assert kernel.serve() == ["add"]


def test_the_focus_on_abort_stays_with_its_request_and_goes_to_the_list_when_that_ends(
    live: tuple[Opened, Kernel],
) -> None:
    view, kernel = live
    for prompt, tokens in (("a b", 2), ("c d", 4), ("e f", 6), ("g h", 6), ("i j", 6), ("k l", 2)):
        add(view, kernel, prompt, tokens)

    def step() -> None:
        view.tab.evaluate(
            "[...document.querySelectorAll('button')].find((b) => b.textContent === 'Step').click()"
        )
        kernel.serve()
        view.settle()
        view.tab.wait_for_timeout(200)

    step()
    button = view.tab.locator(".kvv-abort:visible").nth(1)
    name = button.get_attribute("aria-label")
    assert name
    row = view.tab.locator(".kvv-req", has=view.tab.get_by_label(name))
    button.focus()
    told = 0
    while row.count() and row.locator(".kvv-state").inner_text() != "done":
        assert view.tab.evaluate("document.activeElement.getAttribute('aria-label')") == name
        step()
        told += 1
    assert told >= 3
    assert view.tab.evaluate("document.activeElement.className") == "kvv-reqbox"


def test_a_live_prompt_is_stepped(live: tuple[Opened, Kernel]) -> None:
    view, kernel = live
    assert "Add a prompt" in view.text(".kvv-words")
    add(view, kernel, "one two three", 2)
    view.tab.click("button:text-is('Step')")
    assert kernel.serve() == ["step"]
    view.settle()
    assert view.frame() == len(kernel.widget._history.trace) - 1
    assert "one two three" in view.text(".kvv-text")
    assert not view.faults, view.faults


def test_a_live_run_goes_turn_by_turn_to_its_end(live: tuple[Opened, Kernel]) -> None:
    view, kernel = live
    add(view, kernel, "one two three", 4)
    view.tab.click("button:text-is('Run')")
    kernel.serve_until(lambda: "Idle" in view.text(".kvv-status"))
    assert view.tab.locator("button:text-is('Run')").count() == 1
    assert view.text(".kvv-state") == "done"
    trace = kernel.widget._history.trace
    (shown,) = trace.state_at(len(trace) - 1).reqs.values()
    assert f"cached_len {shown.cached_len} · device_len {shown.device_len}" in view.text(
        ".kvv-lens"
    )


def test_a_live_request_is_aborted_and_a_run_paused(live: tuple[Opened, Kernel]) -> None:
    view, kernel = live
    add(view, kernel, "one two three", 30)
    view.tab.click("button:text-is('Run')")
    kernel.serve_until(lambda: view.tab.locator(".kvv-lens").count() > 0)
    view.tab.click("button:text-is('Pause')")
    kernel.serve_until(lambda: "Paused" in view.text(".kvv-status"))
    view.tab.wait_for_timeout(600)
    assert kernel.serve() == []
    view.tab.click("[aria-label^='Abort r']")
    view.tab.click("button:text-is('Step')")
    kernel.serve_until(lambda: view.text(".kvv-state") == "aborted")


def test_a_live_toy_is_reset_from_the_view(live: tuple[Opened, Kernel]) -> None:
    view, kernel = live
    add(view, kernel, "one two three", 2)
    view.tab.click("button:text-is('Step')")
    assert kernel.serve() == ["step"]
    view.tab.click("summary:has-text('Pool and policy')")
    view.tab.fill(".kvv-settings label:has-text('page size') input", "2")
    view.tab.fill(".kvv-settings label:has-text('pages N') input", "6")
    view.tab.select_option(".kvv-settings select", "naive")
    view.tab.click("button:text-is('Reset')")
    assert kernel.serve() == ["reset"]
    view.settle()
    assert view.text(".kvv-status") == "Started anew: P = 2, 6 pages, naive cache."
    assert "P = 2, 6 pages, naive" in view.text(".kvv-title")
    add(view, kernel, "one two three", 2)
    view.tab.click("button:text-is('Run')")
    kernel.serve_until(lambda: "Idle" in view.text(".kvv-status"))
    view.settle()
    assert view.text(".kvv-panel-pool .kvv-note") == "free 12 + tree 0 + in flight 0 = 12 slots"
    assert "one two three one two" in view.text(".kvv-toks"), "a toy says the prompt again"
    assert not view.faults, view.faults


def test_a_live_mistake_is_told(live: tuple[Opened, Kernel]) -> None:
    view, kernel = live
    view.tab.click("button:text-is('Add')")
    assert view.text(".kvv-status") == "Type a prompt first."
    view.tab.fill(".kvv-prompt", "a b")
    view.tab.fill("input[id^=kvv-max]", "0")
    view.tab.click("button:text-is('Add')")
    assert view.text(".kvv-status") == "max tokens must be a whole number from 1."
    assert kernel.serve() == []
    assert view.text(".kvv-sr[aria-live=polite]") == view.text(".kvv-status")
    assert view.tab.locator("[aria-live], [role=status], output").count() == 1


def test_a_kernel_that_is_gone_is_told_and_the_steps_are_kept(
    live: tuple[Opened, Kernel],
) -> None:
    view, kernel = live
    add(view, kernel, "one two three", 4)
    view.tab.click("button:text-is('Step')")
    kernel.serve()
    view.settle()
    frames = view.frame() + 1
    view.tab.click("button:text-is('Step')")  # nobody answers
    view.tab.wait_for_function(
        "document.querySelector('.kvv-status').textContent.startsWith('No answer yet')"
    )
    view.tab.click("[aria-label='First sub-step']")
    view.settle()
    assert view.frame() == 0
    assert view.tab.locator(".kvv-slider").get_attribute("max") == str(frames - 1)


def test_in_a_built_page_the_live_controls_explain_themselves(open_view: Any) -> None:
    view = open_view(Toy(page_size=4, num_pages=8), static=True)
    assert "no Python kernel" in view.text(".kvv-status")
    assert view.tab.locator("button:text-is('Step')").is_disabled()
    about = view.text(".kvv-about")
    assert about.startswith("In a notebook this is a running engine (toy: P = 4, 8 pages, radix")
    assert "make lab starts JupyterLab" in about
    for nothing in (".kvv-panels", ".kvv-controls", ".kvv-badge", ".kvv-words"):
        assert view.tab.locator(nothing).is_hidden(), nothing
    assert view.tab.evaluate("window.sent.length") == 0
    assert not view.faults, view.faults


def test_in_a_built_page_a_live_view_stands_at_the_last_recorded_step(open_view: Any) -> None:
    toy = Toy(page_size=4, num_pages=8)
    toy.add("one two three", says="four five")
    driver = LocalDriver(toy)
    driver.command({"op": "step"})
    view = open_view(driver, static=True)
    assert view.frame() == len(driver.trace()) - 1 > 0
    assert view.text(".kvv-badge") == "RECORDED RUN"
    assert "no Python kernel" in view.text(".kvv-status")
    assert "Here it stands as it was when this page was made." in view.text(".kvv-about")
    assert view.tab.locator(".kvv-panel-pool").is_visible()


def test_the_largest_release_is_not_cut_off(open_view: Any, trace: Trace) -> None:
    for size in ((1280, 900), (720, 900), (390, 844)):
        view = open_view(trace, panels=["release"], size=size)
        for index, frame in enumerate(trace.frames):
            if "release" not in frame:
                continue
            view.go(index)
            over = view.tab.evaluate(
                "(() => { const box = document.querySelector('.kvv-release');"
                " return box.scrollHeight - box.clientHeight; })()"
            )
            assert over == 0, (size, index)


def test_a_step_changes_little_of_the_page(open_view: Any) -> None:
    view = open_view(crowded_run())
    most = view.tab.evaluate(
        """async () => {
          let changes = 0, most = 0;
          const count = (list) => (changes += list.length);
          const all = { subtree: true, childList: true, attributes: true, characterData: true };
          new MutationObserver(count).observe(document.querySelector(".kvv"), all);
          const slider = document.querySelector(".kvv-slider");
          for (let i = 20; i < Number(slider.max); i += 2) {
            changes = 0;
            slider.value = i;
            slider.dispatchEvent(new Event("input"));
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            most = Math.max(most, changes);
          }
          return most;
        }"""
    )
    assert most <= 300
    assert not view.faults, view.faults


def test_one_redraw_per_frame(open_view: Any, trace: Trace) -> None:
    view = open_view(trace)
    draws = view.tab.evaluate(
        "async () => { let n = 0; const put = CanvasRenderingContext2D.prototype.putImageData;"
        " CanvasRenderingContext2D.prototype.putImageData ="
        " function (...a) { n++; put.apply(this, a); };"
        " const s = document.querySelector('.kvv-slider');"
        " for (let i = 1; i < 20; i++) { s.value = i; s.dispatchEvent(new Event('input')); }"
        " await new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)));"
        " CanvasRenderingContext2D.prototype.putImageData = put; return n; }"
    )
    assert draws == 2  # the table and the pool


def test_assets_hold_no_address_but_svg_s() -> None:
    assert "http" not in assets.css()
