"""Small real runs for the view's tests, and what Python's replay says of each of their frames.

``python -m tests.viz.runs`` writes ``tests/js/run.json``, which holds three of them for node.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from minisgl_lite.teaching.record import record_script
from minisgl_lite.toy import Toy
from minisgl_lite.trace import Recorder, Trace
from minisgl_lite.viz.sentences import sentence

FIXTURE = Path(__file__).parent.parent / "js" / "run.json"
LETTERS = {
    "lost": "?",
    "free": ".",
    "own": "o",
    "locked": "l",
    "shared": "s",
    "evictable": "e",
    "dummy": "x",
}


def busy_run() -> Trace:
    """Hit, split, duplicate, chunk, padding, refusal, eviction, abort: one of each."""
    toy = Toy(page_size=2, num_pages=10, max_extend_tokens=8, cuda_graph_bs=(2, 4))
    with Recorder(toy) as recorder:
        toy.add("a b c d e f", says="g h i")
        toy.add("a b c d e f", says="k")
        toy.step()
        toy.step()
        toy.add("a b x y z", says="u v w")
        toy.add("m n o p q r s t u v", says="w x")
        toy.add([], says="never")
        toy.step()
        toy.step()
        toy.abort(3)
        toy.run()
        toy.add("1 2 3 4 5 6 7 8 9 10 11 12", says="13 14 15 16")
        toy.run()
    return recorder.trace()


def overlapped_run() -> Trace:
    """The same kinds of prompts in the overlapped loop: two batches are in hand at a time."""
    toy = Toy(page_size=4, num_pages=12, overlap=True)
    with Recorder(toy) as recorder:
        toy.add("a b c d e", says="f g h")
        toy.step()
        toy.add("a b c d x", says="y z", max_tokens=2)
        toy.run()
    return recorder.trace()


def crowded_run() -> Trace:
    """Forty requests in twenty rows: they come, wait, end and are followed by others."""
    toy = Toy(page_size=4, num_pages=128, max_running_req=20)
    with Recorder(toy) as recorder:
        for uid in range(40):
            toy.add(f"a b c d {uid} {uid % 7} e f", says="x y z", max_tokens=3 + uid % 5)
            if uid % 4 == 0:
                toy.step()
        toy.run()
    return recorder.trace()


def faulty_run() -> Trace:
    """A page is freed in use and taken by another request: first a warning, then wrong reads."""
    return record_script("stale-rows", behaviours=["stale-rows"], check=True).trace


def states(trace: Trace) -> list[dict[str, Any]]:
    """For each frame: slots as letters, those written and read now, free pages, the balance."""
    replay = trace.replay()
    found = []
    for index in range(len(trace)):
        state = replay.state_at(index)
        slots = state.slots()
        found.append(
            {
                "slots": "".join(LETTERS[info.state] for info in slots),
                "holders": [len(info.holders) for info in slots],
                "written": [info.slot for info in slots if info.written_now],
                "reading": [info.slot for info in slots if info.reading],
                "free": state.free,
                "balance": state.balance().holds,
            }
        )
    return found


def fixture() -> str:
    """The fixture's text."""
    runs = {}
    made = {"busy": busy_run(), "overlapped": overlapped_run(), "faulty": faulty_run()}
    for name, trace in made.items():
        names = [
            "start",
            "end",
            "turn:3",
            "evict",
            "hit:r3",
            "split",
            "chunk:r4",
            "refuse",
            "abort",
        ]
        names += ["first-decode:r1", "token:r1:2", "finish:r1#1", "release:r2#2", "sample#3"]
        content = trace.to_dict()
        del content["digest"]  # it hangs on names that say nothing of the replay
        content["meta"] |= {"model": "toy", "package": "any"}
        runs[name] = {
            "trace": content,
            "states": states(trace),
            "sentences": [sentence(trace, index) for index in range(len(trace))],
            "events": {event: _find(trace, event) for event in names},
        }
    return json.dumps(runs, separators=(",", ":")) + "\n"


def _find(trace: Trace, event: str) -> int:
    try:
        return trace.find(event)
    except ValueError:
        return -1


if __name__ == "__main__":
    FIXTURE.write_text(fixture(), encoding="utf-8")
