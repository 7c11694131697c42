"""Pairs of runs, and what Python says of them: where they first differ, which slots differ.

``python -m tests.viz.pairs`` writes ``tests/js/pairs.json`` for node's tests.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from minisgl_lite.toy import Toy
from minisgl_lite.trace import Recorder, State, Trace
from minisgl_lite.trace.compare import first_difference

FIXTURE = Path(__file__).parent.parent / "js" / "pairs.json"


def told_twice(*, says: str = "and slept .", **settings: Any) -> Trace:
    """One prompt, then two at once that begin like it."""
    toy = Toy(**settings)
    toy.tokenizer.encode("the cat sat on mat and slept ate .")  # the same ids in every run
    with Recorder(toy) as recorder:
        toy.add("the cat sat on the mat", says=says)
        toy.run()
        toy.add("the cat sat on the sofa", says="too .")
        toy.add("the cat sat down", says="again . and again")
        toy.run()
    return recorder.trace()


def pairs() -> dict[str, tuple[Trace, Trace]]:
    """Runs of the same requests that differ in one thing."""
    radix = told_twice(page_size=2, num_pages=16)
    cut = Trace(radix.meta, radix.frames[:-2], radix.vocab)
    return {
        "naive | radix": (told_twice(page_size=2, num_pages=16, cache_type="naive"), radix),
        "P = 1 | 4": (
            told_twice(page_size=1, num_pages=32),
            told_twice(page_size=4, num_pages=8),
        ),
        "overlap off | on": (radix, told_twice(page_size=2, num_pages=16, overlap=True)),
        "budget": (radix, told_twice(page_size=2, num_pages=16, max_extend_tokens=4)),
        "small pool": (radix, told_twice(page_size=2, num_pages=7)),
        "another token": (radix, told_twice(page_size=2, num_pages=16, says="and ate .")),
        "shorter": (radix, cut),
        "equal": (radix, radix),
    }


def differing_slots(one: State, two: State) -> list[int]:
    """The slots that hold something else in the other state."""
    mine, other = what_lies_in(one), what_lies_in(two)
    return [slot for slot, (a, b) in enumerate(zip(mine, other, strict=False)) if a != b]


def what_lies_in(state: State) -> list[tuple[Any, ...]]:
    """Per slot of the pool: its state, whose it is, which token, whether its K/V are written."""
    tokens = {}
    for node in state.tree.values():
        above, up = 0, node.parent
        while up is not None:
            above += len(state.tree[up].key)
            up = state.tree[up].parent
        for i, slot in enumerate(node.value):
            tokens[slot] = (above + i, node.key[i])
    found: list[tuple[Any, ...]] = []
    for info in state.slots()[: state.num_pages * state.page_size]:
        uid, pos = info.holders[0] if info.holders else (None, None)
        if info.state != "own":
            found.append((info.state, uid, tokens.get(info.slot), True))
            continue
        req = state.reqs[uid]
        token = req.ids[pos] if pos < len(req.ids) else None
        found.append((info.state, uid, pos, token, pos < req.cached_len))
    return found


def fixture() -> str:
    """The fixture's text."""
    content = {}
    for name, (one, two) in pairs().items():
        difference = first_difference(one.frames, two.frames)
        at = [(i, i) for i in range(0, min(len(one), len(two)), 3)]
        content[name] = {
            "traces": [bare(one), bare(two)],
            "difference": difference and asdict(difference),
            "slots": [[i, j, differing_slots(one.state_at(i), two.state_at(j))] for i, j in at],
        }
    return json.dumps(content, separators=(",", ":")) + "\n"


def bare(trace: Trace) -> dict[str, Any]:
    """The trace without what depends on the package's version."""
    content = trace.to_dict(wall=False)
    del content["digest"]
    content["meta"] |= {"model": "toy", "package": "any"}
    return content


if __name__ == "__main__":
    FIXTURE.write_text(fixture(), encoding="utf-8")
