"""How much a step costs a page: draws and changes are counted, work is read out of a trace."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

# One step: the slider moves, and the next frame is painted.
MOVE = """
  const slider = document.querySelector(".kvv-slider");
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const move = async (to) => {
    slider.value = to;
    slider.dispatchEvent(new Event("input"));
    await painted();
  };
"""

COUNT = f"""async (stops) => {{
  {MOVE}
  const draws = new Map();
  const put = CanvasRenderingContext2D.prototype.putImageData;
  CanvasRenderingContext2D.prototype.putImageData = function (...given) {{
    draws.set(this.canvas, (draws.get(this.canvas) ?? 0) + 1);
    put.apply(this, given);
  }};
  let changes = 0;
  const all = {{ subtree: true, childList: true, attributes: true, characterData: true }};
  const observer = new MutationObserver((list) => (changes += list.length));
  observer.observe(document.querySelector(".kvv"), all);
  const found = {{ changes: [], draws: [], canvases: 0 }};
  for (const stop of stops) {{
    changes = 0;
    draws.clear();
    for (const to of [stop].flat().slice(0, -1)) {{
      slider.value = to; // several inputs before one frame
      slider.dispatchEvent(new Event("input"));
    }}
    await move([stop].flat().at(-1));
    found.changes.push(changes);
    found.draws.push(Math.max(0, ...draws.values()));
    found.canvases = Math.max(found.canvases, draws.size);
  }}
  CanvasRenderingContext2D.prototype.putImageData = put;
  observer.disconnect();
  return found;
}}"""

STEPS = f"""async (stops) => {{
  {MOVE}
  for (const stop of stops) {{
    await move(stop);
    await new Promise((done) => setTimeout(done, 40)); // raster ends
  }}
}}"""

CATEGORIES = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
TASK = "RunTask"  # others are the same tasks under another name, or nested in them


@dataclass
class Counts:
    """Per step: changes of the DOM, and the most that one canvas was drawn before the frame."""

    changes: list[int]
    draws: list[int]
    canvases: int


def count(tab: Any, stops: Sequence[int | Sequence[int]]) -> Counts:
    """Move to each stop and count. A list of stops is several inputs within one frame."""
    return Counts(**tab.evaluate(COUNT, list(stops)))


def work(browser: Any, tab: Any, stops: Sequence[int]) -> list[float]:
    """Milliseconds of work per step: the main thread's tasks from the input to the frame's commit,
    and the raster after it. CPU time of the threads, so that waiting does not count; what the task
    of the input did before it (a timer that ended) is not the step's.
    """
    browser.start_tracing(page=tab, categories=CATEGORIES)
    tab.evaluate(STEPS, list(stops))
    events = json.loads(browser.stop_tracing())["traceEvents"]
    inputs = sorted((e for e in events if _is_input(e)), key=lambda e: e["ts"])
    assert len(inputs) == len(stops), f"{len(inputs)} inputs for {len(stops)} steps"
    main = _thread(inputs[0])
    tasks = [e for e in events if e["name"] == TASK and e["ph"] == "X" and _thread(e) == main]
    commits = [e for e in events if e["name"] == "Commit" and _thread(e) == main]
    raster = [e for e in events if e["name"] == "RasterTask" and e["pid"] == main[0]]
    ends = [e["ts"] for e in inputs[1:]] + [math.inf]
    found = []
    for asked, end in zip(inputs, ends, strict=True):
        begin = asked["ts"]
        committed = min(e["ts"] for e in commits if begin <= e["ts"] < end)
        own = [e for e in tasks if e["ts"] + e["dur"] > begin and e["ts"] <= committed]
        drawn = [e for e in raster if begin <= e["ts"] < end]
        before = sum(max(0, asked["tts"] - e["tts"]) for e in own if "tts" in e)
        found.append((_cpu(own) - before + _cpu(drawn)) / 1000)
    return found


def _is_input(event: dict[str, Any]) -> bool:
    return event["name"] == "EventDispatch" and event["args"]["data"]["type"] == "input"


def _thread(event: dict[str, Any]) -> tuple[int, int]:
    return event["pid"], event["tid"]


def _cpu(events: Iterable[dict[str, Any]]) -> float:
    """Microseconds."""
    return sum(e.get("tdur", e["dur"]) for e in events)


def quantile(values: Sequence[float], q: float) -> float:
    """The value that a share ``q`` of all does not exceed."""
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]
