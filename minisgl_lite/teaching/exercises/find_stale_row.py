"""A row that points at pages that went back: when, where, and how it is pointed anew."""

from __future__ import annotations

import random
from typing import Any

import torch

from ...core import Req
from ...hooks import Listener, Release
from ...kvcache import BaseCacheHandle
from ...scheduler import CacheManager, Managers
from ...toy import Toy
from ...trace import Recorder, Trace
from ..checks import expect
from ..checks.exercise import Exercise, Template, add
from ..checks.learner import Learner, brief
from ..checks.lockstep import Arrival, Stream, compare, random_stream
from ..published import published_managers

TAG = "m08"
FUNCTION = "repointed"


# ---- the run ------------------------------------------------------------------------------------


class _StaleRows(Listener):
    """Each release that leaves a living row with pages that go back: (turn, request, slot).

    ``written_over``: such a page is handed out again later.
    """

    def __init__(self, toy: Toy) -> None:
        self.toy, self.found = toy, list[tuple[int, int, int]]()
        self.written_over = False
        toy.hooks.attach(self)

    def on_allocate(self, spans: list[tuple[Req, int, int]], page_starts: list[int]) -> None:
        self.written_over |= any(slot in page_starts for _, _, slot in self.found)

    def on_release(self, release: Release) -> None:
        if not release.finished and release.dup_end > release.old_len:
            slot = release.slots[release.old_len]
            self.found.append((self.toy.turn, release.req.uid, slot))


def _toy(numbers: dict[str, Any]) -> Toy:
    return Toy(
        page_size=numbers["page_size"],
        num_pages=numbers["num_pages"],
        managers=published_managers("stale-rows"),
    )


def _play(toy: Toy, numbers: dict[str, Any]) -> None:
    stem = list(range(1, numbers["stem"] + 1))
    for turn in range(1, numbers["turns"] + 1):
        for uid, (arrival, shared, length, output) in enumerate(numbers["requests"], start=1):
            if arrival == turn:
                own = [50 * uid + i for i in range(length)]
                toy.add(stem[:shared] + own, says=[1] * output, uid=uid)
        toy.step()


def _draw(rng: random.Random) -> dict[str, Any]:
    while True:
        page_size = rng.choice([2, 3, 4])
        stem = rng.randrange(2 * page_size, 4 * page_size)
        second = rng.randrange(2, 5)
        numbers: dict[str, Any] = {
            "page_size": page_size,
            "num_pages": rng.randrange(10, 16),
            "stem": stem,
            # turn of arrival, tokens of the stem that it begins with, tokens of its own, says
            "requests": [
                (1, rng.randrange(0, page_size + 1), rng.randrange(1, 4), rng.randrange(1, 6)),
                (second, stem, rng.randrange(1, page_size + 1), rng.randrange(1, 4)),
                (second, stem, rng.randrange(1, page_size + 1), rng.randrange(4, 7)),
                (second + 1, 0, rng.randrange(4, 9), rng.randrange(1, 4)),
            ],
            "turns": second + 4,
        }
        if rng.random() < 0.5:
            requests = numbers["requests"]
            requests[1], requests[2] = requests[2], requests[1]
        toy = _toy(numbers)
        stale = _StaleRows(toy)
        try:
            _play(toy, numbers)
        except Exception:
            continue  # another fault follows from this one; this run is no exercise
        if len(stale.found) == 1 and stale.written_over:
            return numbers


def _solve(numbers: dict[str, Any]) -> dict[str, int]:
    toy = _toy(numbers)
    stale = _StaleRows(toy)
    _play(toy, numbers)
    ((step, request, slot),) = stale.found
    return {"step": step, "request": request, "slot": slot}


def _run(numbers: dict[str, Any]) -> Trace:
    toy = _toy(numbers)
    with Recorder(toy) as recorder:
        _play(toy, numbers)
    return recorder.trace()


def _text(numbers: dict[str, Any]) -> str:
    return """## The stale row

*About 30 minutes, 5 points. It needs [reuse and release](../book/reuse-and-release.ipynb).*

The cell below shows a run with {num_pages} pages of {page_size} tokens. After one of its steps the
row of a living request points at pages that have just gone back to `free_slots`: somebody else had
registered the same tokens a moment before. Whoever gets these pages next will write over what the
row still reads.

First name the step, the request, and the first of its slots, in the order of its positions, that
is free then. Put `dict(step=…, request=…, slot=…)` in place of `None`.

Then mend it. Write `repointed(row, cached, matched, known)`: `row` is the list of the request's
slots, from position 0 to the end of its last page; `cached` the list of the slots under which the
cache now has its prefix, in whole pages; `matched` so many tokens its handle held before, and
`known` so many the cache knew when the prefix was offered. Return the row as it must be from now
on, a new list. The engine will release its requests by your function.
""".format(num_pages=numbers["num_pages"], page_size=numbers["page_size"])


# ---- the mended function ------------------------------------------------------------------------


def _check(learner: Learner, rng: random.Random) -> None:
    yours = Learner(learner.link, FUNCTION)
    compare(_two_equal_prompts(), Managers(cache=_manager(yours)), misconception=TAG)
    for size in (1, 2, 4, rng.choice([3, 5])):
        for matched, more, new, tail in [
            (0, 1, 0, 1), (1, 1, 0, 0), (1, 2, 1, 1), (0, 2, 2, 0), (2, 0, 1, 1), (0, 0, 1, 1),
        ]:  # fmt: skip
            pages = rng.sample(range(40), matched + 2 * more + new + tail)
            own, others = pages[: len(pages) - more], pages[len(pages) - more :]
            cached = own[:matched] + others + own[matched + more : matched + more + new]
            row, held = (_slots_of(side, size) for side in (own, cached))
            known = (matched + more) * size
            called = f"{FUNCTION}({brief(row)}, {brief(held)}, {matched * size}, {known})"
            answer = expect.listed(yours(row, held, matched * size, known), called, len(row))
            expect.equal(answer, held + row[len(held) :], called, "position", TAG)
    yours.repeat_first_calls()
    for _ in range(3):
        stream = random_stream(rng, cache_type="radix")
        compare(stream, Managers(cache=_manager(yours)), misconception=TAG)


def _slots_of(pages: list[int], size: int) -> list[int]:
    return [size * page + i for page in pages for i in range(size)]


def _two_equal_prompts() -> Stream:
    """P = 4: the second of two equal prompts lives on while a third takes what went back."""
    prompt = list(range(1, 10))
    arrivals = [Arrival(0, prompt, [1]), Arrival(0, prompt, [1, 2, 3])]
    return Stream(4, 8, arrivals=[*arrivals, Arrival(1, list(range(20, 33)), [1])])


def _manager(yours: Learner) -> type[CacheManager]:
    class WithYours(CacheManager):
        def _remap(
            self, row: torch.Tensor, handle: BaseCacheHandle, start: int, end: int
        ) -> list[int] | None:
            cached = handle.get_matched_indices().tolist()
            (req,) = (req for req in self._living if req.cache_handle is handle)
            length = -(-req.cached_len // self.page_size) * self.page_size
            slots = row[:length].tolist()
            called = f"{FUNCTION}({brief(slots)}, {brief(cached)}, {start}, {end})"
            answer = expect.listed(yours(slots, cached, start, end), called, length)
            for slot in answer:
                expect.whole(slot, f"an entry of {called}")
            row[:length] = torch.tensor(answer, dtype=torch.int32)
            return answer[start:end]

        def cache_req(self, req: Req, *, finished: bool) -> None:
            self._living = [req]
            super().cache_req(req, finished=finished)

    return WithYours


add(
    Exercise(
        name="find-stale-row",
        kind="find",
        answer="stale",
        objective="find the step after which a living row points at free pages, and point it anew",
        difficulty=2,
        minutes=30,
        points=5,
        page="reuse-and-release",
        misconceptions=("m08", "m09"),
        counterparts=("minisgl_lite.scheduler.cache:CacheManager._remap",),
        template=Template(_draw, _text, _solve, _run),
        hints=(
            "Look for two requests that begin alike and are computed in the same step. When the"
            " second is released, the panel Release shows a duplicate range.",
            "The pages of the duplicate range join the tail of free_slots at the end of that step."
            " Compare them with the row of the request, if it lives on.",
            "From matched to known the row must hold what the cache holds at the same positions."
            " Everything before and after stays as it is.",
        ),
        check=_check,
    )
)
