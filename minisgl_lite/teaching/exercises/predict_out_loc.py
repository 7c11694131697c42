"""What is out_loc for a batch of two requests, one of them with a hit?"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import torch

from ...hooks import Listener
from ...scheduler import ForwardInput
from ...toy import Toy
from ..checks.exercise import Exercise, Template, add


class _Batch(NamedTuple):
    """A prefill batch before its pages are taken, and what is looked up after that."""

    free: list[int]
    lengths: list[tuple[int, int]]
    """cached_len, device_len of each request."""
    hit: list[int]
    """The slots that the first of them matched."""
    out_loc: list[int]


def _draw(rng: random.Random) -> dict[str, Any]:
    while True:
        page_size = rng.choice([2, 3, 4])
        hit = rng.choice([1, 2])
        numbers: dict[str, Any] = {
            "page_size": page_size,
            "hit": hit * page_size,
            "first": hit * page_size + rng.randrange(1, 2 * page_size + 1),
            "second": rng.randrange(1, 2 * page_size + 1),
            "free": [page * page_size for page in rng.sample(range(2, 9), 5)],
        }
        pages = _pages(numbers["first"], page_size) - hit + _pages(numbers["second"], page_size)
        if pages not in (3, 4) or numbers["free"] == sorted(numbers["free"]):
            continue
        if len(_run(numbers).lengths) == 2:  # admission promises room for their output, too
            return numbers


def _pages(tokens: int, page_size: int) -> int:
    return -(-tokens // page_size)


def _text(numbers: dict[str, Any]) -> str:
    batch = _run(numbers)
    (cached, first), (_, second) = batch.lengths
    return """## Where a batch writes

*About 10 minutes, 2 points. It needs [write locations](../book/write-locations.ipynb).*

Pages hold {page_size} tokens. A prefill batch has two requests, in this order:

- request 1 has `cached_len` {cached} and `device_len` {first}, and the slots of its hit stand in
  its row: {hit}
- request 2 has `cached_len` 0 and `device_len` {second}

No page has been taken for this step yet; `free_slots` is {free}. What is `out_loc` when the batch
is prepared? Replace `None` by a list.
""".format(
        page_size=numbers["page_size"],
        cached=cached,
        first=first,
        second=second,
        hit=batch.hit,
        free=batch.free,
    )


def _solve(numbers: dict[str, Any]) -> list[int]:
    return _run(numbers).out_loc


class _Looks(Listener):
    def __init__(self) -> None:
        self.prepared: list[ForwardInput] = []

    def on_prepare(self, forward_input: ForwardInput) -> None:
        self.prepared.append(forward_input)
        batch = forward_input.batch
        self.lengths = [(req.cached_len, req.device_len) for req in batch.reqs]
        self.out_loc = batch.out_loc.tolist()


def _run(numbers: dict[str, Any]) -> _Batch:
    toy = Toy(page_size=numbers["page_size"], num_pages=16)
    toy.add(list(range(1, numbers["hit"] + 1)), says=[1])  # what it leaves is hit below
    toy.run()
    toy.cache_manager.free_slots = torch.tensor(numbers["free"], dtype=torch.int32)
    looks = _Looks()
    toy.hooks.attach(looks)
    toy.add(list(range(1, numbers["first"] + 1)), says=[1])
    toy.add(list(range(200, 200 + numbers["second"])), says=[1])
    toy.step()
    first = looks.prepared[0].batch.reqs[0]
    hit = toy.engine.page_table[first.table_idx, : looks.lengths[0][0]].tolist()
    return _Batch(numbers["free"], looks.lengths, hit, looks.out_loc)


add(
    Exercise(
        name="predict-out-loc",
        kind="predict",
        answer="write_places",
        objective="say which slots a batch of two requests writes to, and in which order",
        difficulty=2,
        minutes=10,
        points=2,
        page="write-locations",
        misconceptions=("m03", "m01"),
        template=Template(_draw, _text, _solve),
        hints=(
            "out_loc has an entry for each token that the step computes, request after request:"
            " device_len - cached_len of each.",
            "First the pages: request 1 takes those from ceil(cached_len / P) to"
            " ceil(device_len / P), from the head of the queue, then request 2 takes its own.",
            "Write both rows out in full, a page start expands to P slots, then cut"
            " [cached_len, device_len) out of each. What lies behind device_len on a last page is"
            " the request's own, but nothing is written there now.",
        ),
    )
)
