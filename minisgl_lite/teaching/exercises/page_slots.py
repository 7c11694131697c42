"""From page starts to the slots of single tokens."""

from __future__ import annotations

import random

import torch

from ...scheduler import CacheManager, Managers
from ..checks import expect
from ..checks.exercise import Exercise, add
from ..checks.learner import Learner
from ..checks.lockstep import compare, play, random_stream


def _check(learner: Learner, rng: random.Random) -> None:
    for page_size in (1, 2, 4, rng.choice([3, 5, 8])):
        starts = [page * page_size for page in rng.sample(range(40), 4)]
        for count in (0, 1, page_size, 2 * page_size - 1, 3 * page_size + 1, 4 * page_size):
            if count <= 4 * page_size:
                _compare_one(learner, starts, page_size, count)
    for _ in range(3):
        compare(random_stream(rng), Managers(cache=_manager(learner)), misconception="m01")


def _compare_one(learner: Learner, starts: list[int], page_size: int, count: int) -> None:
    called = f"page_slots({starts}, {page_size}, {count})"
    slots = expect.tensor(learner(starts, page_size, count), called, torch.int32, (count,))
    right = [start + offset for start in starts for offset in range(page_size)][:count]
    expect.equal(slots, right, called, "token", "m01")


def _manager(learner: Learner) -> type[CacheManager]:
    class WithYours(CacheManager):
        def _page_to_token(self, pages: torch.Tensor) -> torch.Tensor:
            count = len(pages) * self.page_size
            slots = learner(pages.tolist(), self.page_size, count)
            return expect.tensor(slots, "page_slots, in the engine,", torch.int32, (count,))

    return WithYours


PAGE_SLOTS = add(
    Exercise(
        name="page-slots",
        kind="build",
        answer="page_slots",
        objective="expand page starts into the slots of the tokens they hold, at every page size",
        difficulty=1,
        minutes=15,
        points=4,
        page="free-pages",
        misconceptions=("m01",),
        counterparts=("minisgl_lite.scheduler.cache:CacheManager._page_to_token",),
        hints=(
            "free_slots holds the first slot of each page, not its number: page start 8 with four"
            " tokens a page stands for slots 8, 9, 10 and 11.",
            "Write the slots of one page as its start plus 0, 1, …, page_size - 1. For several"
            " pages at once, add a row of offsets to a column of starts.",
            "A column is starts.unsqueeze(1); flatten the sum row by row, then keep the first"
            " `count` entries. The dtype must be torch.int32 from the beginning.",
        ),
        check=_check,
        scene=lambda learner: play(Managers(cache=_manager(learner))),
    )
)
