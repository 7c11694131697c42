"""What the views cost: ``make bench-view``.

Work per step and per jump on the seeded fixture (4,096 slots, a table of 64 x 512, 300 steps), at
one and two device pixels per pixel, drawn in software; the time to the first picture; bytes. The
numbers are this machine's; what CI holds is counted, not timed (``test_work.py``).
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from minisgl_lite.trace import Trace
from minisgl_lite.viz import assets, compare, show
from tests.book.browser import open_chromium
from tests.trace.big_run import big_run
from tests.viz.grids import chapter_grid
from tests.viz.pages import page
from tests.viz.work import count, quantile, work

WARM_UP, STEPS, JUMPS, LOADS = 20, 200, 60, 5
ALL = ["requests", "page_table", "pool", "out_loc", "free_slots", "tree", "release", "balance"]


def measure(browser: Any, path: Path, frames: int, scale: int) -> None:
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, device_scale_factor=scale
    )
    tab = context.new_page()
    tab.goto(path.as_uri())
    tab.wait_for_function("window.ready !== undefined")
    begin = frames // 2
    steps = [begin + i for i in range(STEPS)]
    rng = random.Random(0)
    jumps = [rng.randrange(frames) for _ in range(JUMPS)]
    work(browser, tab, steps[:WARM_UP])
    for name, stops in (("a step", steps), ("a jump", jumps)):
        found = work(browser, tab, stops)
        p50, p95 = quantile(found, 0.5), quantile(found, 0.95)
        print(f"  {name}, {scale}x: p50 {p50:.1f} ms, p95 {p95:.1f} ms ({len(found)})")
    if scale == 1:
        count(tab, steps[:1])
        counts = count(tab, steps[1:])
        print(f"  a step: {max(counts.changes)} changes of the DOM at most")
    context.close()


def first_picture(browser: Any, path: Path) -> float:
    """Milliseconds from the page's being read to two frames after the view is there; a median."""
    times = []
    for _ in range(LOADS):
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto(path.as_uri())
        tab.wait_for_function("window.ready !== undefined")
        times.append(tab.evaluate("window.ready"))
        tab.close()
    return statistics.median(times)


def stretch(browser: Any, path: Path) -> None:
    """65,536 slots, 2,000 steps: frames a second while the timeline is drawn along."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(path.as_uri())
    tab.wait_for_function("window.ready !== undefined")
    frames = 200
    rate = tab.evaluate(
        """async (frames) => {
          const slider = document.querySelector(".kvv-slider");
          const begin = performance.now();
          for (let i = 0; i < frames; i++) {
            slider.value = 1000 + i;
            slider.dispatchEvent(new Event("input"));
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
          }
          return (1000 * frames) / (performance.now() - begin);
        }""",
        frames,
    )
    found = work(browser, tab, [3000 + i for i in range(STEPS)])
    print(f"  {rate:.0f} frames a second; a step: p95 {quantile(found, 0.95):.1f} ms of work")
    tab.close()


def views(trace: Trace) -> dict[str, tuple[Any, int]]:
    """Name to the widget and the number of its stops."""
    naive = big_run(cache_type="naive")
    return {
        "three panels": (show(trace), len(trace)),
        "eight panels": (show(trace, panels=ALL), len(trace)),
        "two runs": (compare(naive, trace, labels=("naive", "radix"), start=0), len(trace)),
    }


def main() -> None:
    torch.set_num_threads(1)
    trace = big_run()
    print(f"the run: {trace.frames[-1]['turn']} steps, {len(trace)} frames")
    with open_chromium() as browser, tempfile.TemporaryDirectory() as folder:
        print(f"Chromium {browser.version}")
        for name, (widget, stops) in views(trace).items():
            path = Path(folder) / "view.html"
            path.write_text(page(widget), encoding="utf-8")
            print(f"{name}: first picture after {first_picture(browser, path):.0f} ms")
            for scale in (1, 2):
                measure(browser, path, stops, scale)
        large = big_run(slots=65_536, turns=2000, requests=1500)
        path = Path(folder) / "large.html"
        path.write_text(page(show(large)), encoding="utf-8")
        print(f"65,536 slots, {large.frames[-1]['turn']} steps, {len(large)} frames")
        stretch(browser, path)
    texts = {
        "the run in a page": trace.to_widget(),
        "a grid of 30 toy runs": chapter_grid().to_widget(),
        "the view's module": assets.esm(),
        "its style sheets": assets.css(),
    }
    for name, text in texts.items():
        print(f"{name}: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    sys.exit(main())
