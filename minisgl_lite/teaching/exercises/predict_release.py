"""Which slots of a request stay in the tree, and which go back?"""

from __future__ import annotations

import random
from typing import Any

from ...hooks import Listener, Release
from ...toy import Toy
from ..checks.exercise import Exercise, Template, add


class _Releases(Listener):
    """What every ``cache_req`` did, and what came back to the queue for it."""

    def __init__(self) -> None:
        self.seen: list[Release] = []

    def on_release(self, release: Release) -> None:
        self.seen.append(release)


def _draw(rng: random.Random) -> dict[str, Any]:
    while True:
        page_size = rng.choice([2, 3, 4])
        numbers = {
            "page_size": page_size,
            "cached": page_size * rng.randrange(1, 3),
            "common": rng.randrange(page_size, 3 * page_size),
            "first": rng.randrange(1, page_size + 1),
            "second": rng.randrange(1, 2 * page_size + 1),
            "ends": rng.random() < 0.5,
        }
        release = _release(numbers)
        ranges = _ranges(release)
        if all(start < end for start, end in ranges.values()):
            return numbers


def _text(numbers: dict[str, Any]) -> str:
    release = _release(numbers)
    life = "It ends with this step" if numbers["ends"] else "It lives on after this step"
    return """## What a release does with the slots

*About 10 minutes, 2 points. It needs [reuse and release](../book/reuse-and-release.ipynb).*

Pages hold {page_size} tokens. Requests A and B are computed in one batch. Their prompts begin with
the same {shared} tokens; the first {cached} of these were in the radix cache when the two were
admitted. A's prompt has {a} tokens, B's has {b}. After the step A is released first,
then B. B's row held these slots, up to the end of its last page:

`{slots}`

{life}. What becomes of these slots? Replace `None` by a dict with four lists of them,
`dict(matched=…, duplicate=…, registered=…, tail=…)`, and under `freed` the page starts that go back
to `free_slots` for B in this release, in order. Count the unused places of the last page with the
tail.
""".format(
        page_size=numbers["page_size"],
        shared=numbers["cached"] + numbers["common"],
        cached=numbers["cached"],
        a=numbers["cached"] + numbers["common"] + numbers["first"],
        b=numbers["cached"] + numbers["common"] + numbers["second"],
        slots=release.slots,
        life=life,
    )


def _solve(numbers: dict[str, Any]) -> dict[str, list[int]]:
    release = _release(numbers)
    parts = {name: release.slots[a:b] for name, (a, b) in _ranges(release).items()}
    freed = parts["duplicate"] + (parts["tail"] if release.finished else [])
    return parts | {"freed": freed[:: numbers["page_size"]]}


def _ranges(release: Release) -> dict[str, tuple[int, int]]:
    return {
        "matched": (0, release.old_len),
        "duplicate": (release.old_len, release.dup_end),
        "registered": (release.dup_end, release.new_len),
        "tail": (release.new_len, release.end),
    }


def _release(numbers: dict[str, Any]) -> Release:
    """B's first release, in a run of the engine."""
    cached = list(range(1, numbers["cached"] + 1))
    common = cached + list(range(20, 20 + numbers["common"]))
    toy = Toy(page_size=numbers["page_size"], num_pages=24)
    toy.add(cached, says=[1, 1])
    toy.run()
    toy.hooks.attach(releases := _Releases())
    toy.add([*common, *range(40, 40 + numbers["first"])], says=[1])
    toy.add([*common, *range(60, 60 + numbers["second"])], says=[1] * (1 if numbers["ends"] else 3))
    toy.step()
    return releases.seen[1]


add(
    Exercise(
        name="predict-release",
        kind="predict",
        answer="released",
        objective="say of each slot of a request whether it stays in the tree or goes back",
        difficulty=2,
        minutes=10,
        points=2,
        page="reuse-and-release",
        misconceptions=("m08", "m09"),
        template=Template(_draw, _text, _solve),
        hints=(
            "Requests of one batch are matched before any of them has been computed. So B found no"
            " more than what was there before, though A computes a part of the same tokens.",
            "When B is released, A's whole pages are in the tree already. What B has of these"
            " beyond its match are duplicates; only whole pages that A's prompt shares with B's"
            " count.",
            "What fills no whole page is tail. Duplicates go back whether B ends or not; the tail"
            " goes back if it ends.",
        ),
    )
)
