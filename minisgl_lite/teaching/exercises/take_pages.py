"""The work of allocate_paged for one request: pages off the queue, slots into its row."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import torch

from ...core import Req
from ...scheduler import CacheManager, Managers
from ...utils import div_ceil
from ..checks.exercise import Exercise, add
from ..checks.learner import Learner, Wrong, brief
from ..checks.lockstep import compare, play, random_stream


def _check(learner: Learner, rng: random.Random) -> None:
    for page_size in (1, 2, 4, rng.choice([3, 5])):
        for cached, device in _spans(page_size, rng):
            _compare_one(learner, rng, page_size, cached, device, spare=rng.randrange(4))
        _compare_one(learner, rng, page_size, 0, 2 * page_size + 1, spare=-1)
        _compare_one(learner, rng, page_size, page_size, 3 * page_size, spare=-2)
    for chunks in (False, False, True):
        stream = random_stream(rng, aborts=True, chunks=chunks)
        compare(stream, Managers(cache=_manager(learner)), misconception="m04")


def _spans(page_size: int, rng: random.Random) -> list[tuple[int, int]]:
    """cached_len and device_len on both sides of page borders."""
    p = page_size
    return [
        (0, 1),
        (0, p),
        (0, 2 * p + 1),
        (p, p + 1),  # a decode step that begins a page
        (2 * p - 1, 2 * p),  # one that fills a page
        (p, 3 * p),
        (2 * p - 1, 3 * p + 1),
        (p + 1, 2 * p) if p > 1 else (2, 3),
        (3 * p, 4 * p),  # the last page of the row
        (cached := rng.randrange(3 * p), rng.randrange(cached + 1, 4 * p + 1)),
    ]


def _compare_one(
    learner: Learner, rng: random.Random, page_size: int, cached: int, device: int, *, spare: int
) -> None:
    """``spare``: pages that are free beyond those needed; below 0, that many are missing."""
    first, last = div_ceil(cached, page_size), div_ceil(device, page_size)
    free = [p * page_size for p in rng.sample(range(5, 40), max(0, last - first + spare))]
    row = torch.tensor([rng.randrange(4 * page_size) for _ in range(4 * page_size)]).int()
    called = f"take_pages({brief(row)}, {free}, {cached}, {device}, {page_size})"
    wanted_row, wanted_free, enough = row.clone(), list(free), spare >= 0
    if enough:
        for page in range(first, last):
            start = wanted_free.pop(0)
            slots = torch.arange(start, start + page_size, dtype=torch.int32)
            wanted_row[page * page_size : (page + 1) * page_size] = slots
    answer = learner(row, free, cached, device, page_size)
    if type(answer) is not bool:
        raise Wrong(f"{called} returned {brief(answer)}; True or False is wanted")
    if answer is not enough:
        count = f"{last - first} page{'' if last - first == 1 else 's'}"
        raise Wrong(
            f"{called} returned {answer}; the step takes {count}, and {len(wanted_free)} are free"
            if not enough
            else f"{called} returned False; the step takes {count}, and there are enough",
            "m04",
        )
    if not enough and (free != wanted_free or not torch.equal(row, wanted_row)):
        raise Wrong(f"{called} returned False, and yet changed free or the row")
    _compare_row(called, row.tolist(), wanted_row.tolist(), first * page_size, last * page_size)
    if free != wanted_free:
        raise Wrong(f"{called} leaves {free} in free; it should be {wanted_free}", "m04")


def _compare_row(called: str, found: list[int], right: list[int], start: int, end: int) -> None:
    for position, (one, other) in enumerate(zip(found, right, strict=True)):
        if one != other and start <= position < end:
            raise Wrong(f"{called}: position {position} holds {one}; it should hold {other}", "m01")
        if one != other:
            span = f"[{start}, {end})" if start < end else "none"
            raise Wrong(
                f"{called}: position {position} was {other} and is {one} now; the step takes pages"
                f" for these positions: {span}",
                "m04",
            )


def _manager(learner: Learner) -> type[CacheManager]:
    class WithYours(CacheManager):
        def allocate_paged(self, reqs: list[Req]) -> None:
            size = self.page_size
            spans = [
                (req, div_ceil(req.cached_len, size), div_ceil(req.device_len, size))
                for req in reqs
            ]
            missing = sum(last - first for _, first, last in spans) - len(self._queue)
            if missing > 0:
                self._evict(missing * size)
            taken: list[int] = []
            for req, first, last in spans:
                free, row = list(self._queue), self.page_table[req.table_idx]
                if learner(row, free, req.cached_len, req.device_len, size) is not True:
                    raise Wrong(_refused(req, size, list(self._queue)))
                self._queue = deque(free)
                taken += row[first * size : last * size : size].tolist()
            self._spans = [span for span in spans if span[2] > span[1]]
            if self.hooks.active and self._spans:
                self.hooks.emit("on_allocate", self._spans, taken)

    return WithYours


def _refused(req: Any, page_size: int, free: list[int]) -> str:
    return (
        f"in the engine take_pages did not return True for request {req.uid}, cached_len"
        f" {req.cached_len}, device_len {req.device_len}, P = {page_size}, free = {free}"
    )


add(
    Exercise(
        name="take-pages",
        kind="build",
        answer="take_pages",
        objective="take the pages that a step begins, and write their slots into the request's row",
        difficulty=2,
        minutes=25,
        points=6,
        page="write-locations",
        misconceptions=("m04", "m01"),
        mutates=(0, 1),
        counterparts=(
            "minisgl_lite.scheduler.cache:CacheManager.allocate_paged",
            "minisgl_lite.scheduler.cache:CacheManager._page_to_token",
            "minisgl_lite.scheduler.cache:_write_page_table",
        ),
        hints=(
            "Count the pages that tokens [0, cached_len) stand on, and those that [0, device_len)"
            " stand on. Both divisions are rounded up. The difference is what the step takes.",
            "Compare with len(free) before you change anything. Then, for each page: the head of"
            " the queue, and P cells of the row.",
            "Page j of the request holds positions j·P to (j+1)·P - 1, and all P cells are written,"
            " also those behind device_len. `free.pop(0)` takes the head in place;"
            " `free = free[1:]` makes another list that nobody sees.",
        ),
        check=_check,
        scene=lambda learner: play(Managers(cache=_manager(learner))),
    )
)
