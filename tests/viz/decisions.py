"""Runs in which much is decided, and what Python says of each turn: written, taken, evicted.

``python -m tests.viz.decisions`` writes ``tests/js/decisions.json`` for node's tests.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minisgl_lite.toy import Toy
from minisgl_lite.trace import Recorder, Trace
from minisgl_lite.trace.packing import pack

FIXTURE = Path(__file__).parent.parent / "js" / "decisions.json"


def recorded(play: Callable[[Toy], None], **settings: Any) -> Trace:
    toy = Toy(**settings)
    with Recorder(toy) as recorder:
        play(toy)
        toy.run()
    trace = recorder.trace()
    trace.meta |= {"model": "toy", "package": "any"}
    return trace


def _one_by_one(*prompts: str) -> Callable[[Toy], None]:
    def play(toy: Toy) -> None:
        for prompt in prompts:
            toy.add(prompt, says="end")
            toy.run()

    return play


def _together(*prompts: str, says: str = "end") -> Callable[[Toy], None]:
    def play(toy: Toy) -> None:
        for prompt in prompts:
            toy.add(prompt, says=says)

    return play


def _locked_out(toy: Toy) -> None:
    """r3 would fit, but locking its own hit takes away what would have to be evicted for it."""
    toy.add("a b c d", says="e")
    toy.run()
    toy.add("m", says="n o p q r")
    toy.step()
    toy.add("a b c d x", says="1 2 3 4 5")
    toy.run()


def _at_random(seed: int, turns: int) -> Callable[[Toy], None]:
    def play(toy: Toy) -> None:
        rng = random.Random(seed)
        for _ in range(turns):
            if rng.random() < 0.5:
                start = rng.choice(["a b c d e f g h", "a b c x y z", "k l m"])
                words = start.split()[: rng.randint(1, 8)]
                words += [rng.choice("uvw") for _ in range(rng.randint(0, 3))]
                toy.add(" ".join(words), says=" ".join("pqrst"[: rng.randint(1, 5)]))
            if toy.has_work or toy._queue.waiting:
                toy.step()

    return play


def runs() -> dict[str, Trace]:
    eight = "a b c d e f g h"
    chance = {
        "random, P = 1": (1, {"page_size": 1, "num_pages": 20}),
        "random, P = 2": (2, {"page_size": 2, "num_pages": 10, "max_extend_tokens": 6}),
        "random, P = 4": (4, {"page_size": 4, "num_pages": 6, "max_running_req": 2}),
        "random, padded": (5, {"page_size": 4, "num_pages": 8, "cuda_graph_bs": (2, 4)}),
        "random, overlap": (6, {"page_size": 2, "num_pages": 12, "overlap": True}),
        "random, naive": (7, {"page_size": 2, "num_pages": 12, "cache_type": "naive"}),
    }
    return {
        "last, P = 1": recorded(_one_by_one("a b c", "a b c"), page_size=1, num_pages=12),
        "last, P = 4": recorded(_one_by_one(eight, eight), page_size=4, num_pages=8),
        "end": recorded(_one_by_one("a b c d e f g h", "a b c d e f"), page_size=4, num_pages=8),
        "border": recorded(_one_by_one(eight, "a b c d e f x y z"), page_size=4, num_pages=8),
        "most": recorded(_one_by_one(eight, "a b c d x"), page_size=4, num_pages=8),
        "twin": recorded(_together(eight, eight), page_size=4, num_pages=8),
        "lock": recorded(_locked_out, page_size=2, num_pages=6),
        "rows": recorded(
            _together("a b", "c d", says="1 2"), page_size=2, num_pages=8, max_running_req=1
        ),
        "budget": recorded(
            _together("a b c", "d e", "f g"), page_size=2, num_pages=8, max_extend_tokens=4
        ),
    } | {
        name: recorded(_at_random(seed, 16), **settings)
        for name, (seed, settings) in chance.items()
    }


def turns(trace: Trace) -> list[dict[str, Any]]:
    """For each batch: the frame that stores it, slots written but the dummy's, pages taken."""
    total = trace.meta["num_pages"] * trace.meta["page_size"]
    replay, found = trace.replay(), []
    for index, frame in enumerate(trace.frames):
        if not frame.get("stored"):
            continue
        turn = [f for f in trace.frames[: index + 1] if f["turn"] == frame["turn"]]
        written = replay.state_at(index).written_now()
        found.append(
            {
                "at": index,
                "slots": sorted(slot for slot in written if slot < total),
                "pages": sum(f.get("free", {}).get("take", 0) for f in turn),
                "evicted": sorted(
                    start
                    for f in turn
                    if f["phase"] == "evict"
                    for start in f.get("free", {}).get("put", ())
                ),
            }
        )
    return found


def fixture() -> str:
    """The fixture's text: each run packed, as a page has it."""
    content = {}
    for name, trace in runs().items():
        data = trace.to_dict(wall=False)
        del data["digest"]
        data["packed"] = pack(trace.meta, data.pop("frames"))
        content[name] = {"trace": data, "turns": turns(trace)}
    return json.dumps(content, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    FIXTURE.write_text(fixture(), encoding="utf-8")
