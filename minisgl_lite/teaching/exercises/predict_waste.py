"""How many requests run together at two page sizes, and how many taken slots hold no token?"""

from __future__ import annotations

import random
from typing import Any

from ...hooks import Listener
from ...scheduler import ForwardInput
from ...toy import Toy
from ...utils import div_ceil
from ..checks.exercise import Exercise, Template, add


class _FirstBatch(Listener):
    """Of the first step: how many requests it has, and how many slots they have taken in vain."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.requests = self.empty = 0

    def on_prepare(self, forward_input: ForwardInput) -> None:
        if self.requests:
            return
        size, reqs = self.page_size, forward_input.batch.reqs
        self.requests = len(reqs)
        self.empty = sum(div_ceil(r.device_len, size) * size - r.device_len for r in reqs)


def _draw(rng: random.Random) -> dict[str, Any]:
    while True:
        small = rng.choice([2, 4, 8])
        numbers = {
            "small": small,
            "large": small * rng.choice([4, 8]),
            "slots": 64 * rng.randrange(3, 8),
            "count": rng.randrange(7, 11),
            "prompt": rng.randrange(15, 50),
            "output": rng.randrange(3, 12),
        }
        answer = _solve(numbers)
        # Bigger pages cost a request, and neither size takes all or only one.
        fits = numbers["slots"] % numbers["large"] == 0
        if fits and 1 < answer["at_large"] < answer["at_small"] < numbers["count"]:
            return numbers


def _text(numbers: dict[str, Any]) -> str:
    return """## What bigger pages cost

*About 10 minutes, 2 points. It needs
[page size and fragmentation](../book/page-size.ipynb).*

A pool has {slots} slots, all free. {count} requests arrive together, each with a prompt of {prompt}
tokens and up to {output} tokens of output; no two prompts begin alike. The budget of a step is
larger than all of them together, and there are rows enough.

How many of them does the first step take with P = {small}, and how many with P = {large}? And with
P = {large}: once that step's pages are taken, how many slots of these pages hold no token of a
prompt? Replace `None` by a dict: `{{"at_small": …, "at_large": …, "empty": …}}`.
""".format(**numbers)


def _solve(numbers: dict[str, Any]) -> dict[str, int]:
    (at_small, _), (at_large, empty) = (
        _first_batch(numbers, numbers[size]) for size in ("small", "large")
    )
    return {"at_small": at_small, "at_large": at_large, "empty": empty}


def _first_batch(numbers: dict[str, Any], page_size: int) -> tuple[int, int]:
    toy = Toy(
        page_size=page_size,
        num_pages=numbers["slots"] // page_size,
        max_running_req=numbers["count"],
    )
    toy.hooks.attach(first := _FirstBatch(page_size))
    for uid in range(1, numbers["count"] + 1):
        ids = [100 * uid + i for i in range(numbers["prompt"])]
        toy.add(ids, says=[1] * numbers["output"])
    toy.step()
    return first.requests, first.empty


add(
    Exercise(
        name="predict-waste",
        kind="predict",
        answer="page_size_costs",
        objective="say how many requests fit at two page sizes, and how many slots stay empty",
        difficulty=2,
        minutes=10,
        points=2,
        page="page-size",
        misconceptions=("m11", "m04"),
        template=Template(_draw, _text, _solve),
        hints=(
            "Admission asks for room for the prompt and the whole output of each request, before"
            " it is taken.",
            "What a request asks for is rounded up to whole pages, each request by itself. Divide"
            " the pool's pages by the pages that one of them asks for.",
            "The pages for the output are only promised: the first step takes those of the prompts."
            " Count their slots, and take the prompts' tokens off.",
        ),
    )
)
