"""Compares with mini-sglang over many random streams, and counts what goes wrong on each side.

    MINISGL_PATH=CLONE PYTHONPATH=.:tests python -m tests.reference.measure --streams 4000

Exits with 1 if a stream differs that must not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from helpers.world import LOOPS

from minisgl_lite.teaching.clone import load_minisgl
from minisgl_lite.teaching.published import PUBLISHED
from tests.reference.damage import KINDS, damage
from tests.reference.pairs import compare, explain
from tests.reference.streams import Stream, draw

Report = Callable[[int, int], int]


def all_put_in(streams: int, seed: int, *, aborts: bool = False) -> int:
    """With every published behaviour put in: the number of streams that differ."""
    start, counts = time.perf_counter(), Counter[str]()
    for each in range(seed, seed + streams):
        outcome = compare(draw(each, aborts=aborts), "all")
        counts["turns"] += outcome.turns
        counts["waited for pages"] += outcome.refused
        counts["both sides raised"] += outcome.raised
        if outcome.difference is not None:
            counts["differ"] += 1
            print(outcome.difference)
    _line(f"all put in, aborts {'on' if aborts else 'off'}", streams, counts, start)
    return counts["differ"]


def with_aborts(streams: int, seed: int) -> int:
    return all_put_in(streams, seed, aborts=True)


def corrected(streams: int, seed: int) -> int:
    """The corrected engine: the number of streams whose difference has no explanation."""
    start, counts = time.perf_counter(), Counter[str]()
    for each in range(seed, seed + streams):
        stream = draw(each)
        explained = explain(stream)
        counts["equal at once"] += not explained.needed
        counts["rows pointed anew"] += explained.first.pointed_anew
        counts["by " + (" and ".join(explained.needed) or "nothing")] += 1
        whole_pages = "token-wise-admission" in explained.needed
        if whole_pages and (stream.page_size == 1 or not explained.first.refused):
            print(f"seed {each}: whole pages matter though no request waited for pages")
            counts["unexplained"] += 1
        if explained.last.difference is not None:
            print(explained.last.difference)
            counts["unexplained"] += 1
    _line("corrected", streams, counts, start)
    return counts["unexplained"]


def damages(streams: int, seed: int) -> int:
    """What goes wrong on each side; the number of streams in which anything did with ours."""
    print("wrong:", "; ".join(f"{kind}: {text}" for kind, text in KINDS.items()))
    ours = 0
    for aborts in (False, True):
        for loop in LOOPS:
            drawn = [draw(each, aborts=aborts, loop=loop) for each in range(seed, seed + streams)]
            print(f"loop {loop}, aborts {'on' if aborts else 'off'}")
            for side in ("minisgl", "all", *PUBLISHED.supported_names(), "corrected"):
                wrong = _damages(drawn, side)
                ours += wrong if side == "corrected" else 0
    return ours


def _damages(drawn: list[Stream], side: str) -> int:
    start, counts = time.perf_counter(), Counter[str]()
    for stream in drawn:
        found = damage(stream, side)
        counts["wrong"] += bool(found)
        counts.update(found)
    _line(f"  {side}", len(drawn), counts, start)
    return counts["wrong"]


def _line(what: str, streams: int, counts: Counter[str], start: float) -> None:
    numbers = ", ".join(f"{name} {counts[name]}" for name in sorted(counts)) or "nothing"
    print(f"{what}: {streams} streams, {numbers} ({time.perf_counter() - start:.0f} s)", flush=True)


PARTS: dict[str, Report] = {
    "all": all_put_in,
    "aborts": with_aborts,
    "corrected": corrected,
    "damage": damages,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=400, help="how many of each part")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    options: Any = parser.parse_args()
    torch.set_num_threads(1)
    print(f"mini-sglang at {load_minisgl().commit}, seeds {options.seed} and on")
    return int(sum(PARTS[part](options.streams, options.seed) for part in options.parts) > 0)


if __name__ == "__main__":
    sys.exit(main())
