"""The bound: which requests, pools, pages, loops and caches the sweep goes through.

A *setting* fixes everything but the stream. A *stream* is the requests, how far their tokens agree
(``naming.py``), when they arrive, and at most one abort.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement, product
from typing import NamedTuple

from .naming import Common, Shape, no_agreement, patterns

NO_BUDGET = 8192
POOLS = (0, 1, 2)
"""Pages beyond the fewest that hold the longest request alone."""
LOOPS = ("normal", "overlap")
"""``normal`` on a device that runs a step at launch, ``overlap`` on one that runs it late."""
CACHES = ("naive", "radix")


@dataclass(frozen=True)
class World:
    """Requests of 1 .. ``prompt`` prompt tokens and 1 .. ``outputs`` output tokens.

    ``stops``: ended by EOS at any output, or by length; else by length only. ``budget``: prompt
    tokens of a step. ``last_arrival`` None: the second request comes at any turn until the first,
    alone, is at rest; else requests come at turns 0 .. ``last_arrival``. ``aborts``: none, or one
    of either request at any turn of its life, and of the turns right after. ``rows``: of the page
    table; None: one for each request.
    """

    name: str
    requests: int
    prompt: int
    outputs: int
    stops: bool
    page_sizes: tuple[int, ...]
    budget: int = NO_BUDGET
    last_arrival: int | None = None
    aborts: bool = True
    rows: int | None = None

    def __str__(self) -> str:
        ends = "length or EOS at any of them" if self.stops else "length"
        budget = "" if self.budget == NO_BUDGET else f", {self.budget} prompt tokens a step"
        arrivals = (
            "the second comes at any turn until the first alone is at rest"
            if self.last_arrival is None
            else f"they come at turns 0 to {self.last_arrival}, the first at 0"
        )
        aborts = "at most one abort at any turn" if self.aborts else "no abort"
        rows = "" if self.rows is None else f"; {self.rows} table row"
        sizes = ", ".join(map(str, self.page_sizes))
        return (
            f"{self.requests} requests, prompts of 1-{self.prompt}, 1-{self.outputs} output tokens"
            f" ended by {ends}{budget}; {arrivals}; {aborts}{rows}; P in {{{sizes}}}"
        )

    def shapes(self) -> list[Shape]:
        """Every request of this world but for its tokens."""
        ends = [(most, 0) for most in range(1, self.outputs + 1)]
        if self.stops:
            ends += [(most, at) for most in range(1, self.outputs + 1) for at in range(1, most + 1)]
        return [Shape(n, most, at) for n in range(1, self.prompt + 1) for most, at in ends]


WORLDS = {
    world.name: world
    for world in (
        World("a", 2, prompt=4, outputs=3, stops=True, page_sizes=(1, 2)),
        World("b", 2, prompt=4, outputs=3, stops=False, page_sizes=(4,)),
        World("c", 2, prompt=4, outputs=3, stops=False, page_sizes=(1, 2, 4), budget=2),
        World(
            "d",
            3,
            prompt=3,
            outputs=2,
            stops=False,
            page_sizes=(1, 2, 4),
            last_arrival=3,
            aborts=False,
        ),
        World("e", 2, prompt=2, outputs=2, stops=True, page_sizes=(1, 2), rows=1),
    )
}


COUNTED = {"a": 2_589_032, "b": 151_005, "c": 605_050, "d": 516_240, "e": 122_076}
"""Runs of each world: a whole sweep must come to these numbers."""


class Setting(NamedTuple):
    """Where a stream is run. ``more_pages`` is one of ``POOLS``."""

    world: str
    page_size: int
    more_pages: int
    loop: str
    cache: str

    @property
    def overlap(self) -> bool:
        return self.loop == "overlap"

    @property
    def budget(self) -> int:
        return WORLDS[self.world].budget

    @property
    def rows(self) -> int:
        world = WORLDS[self.world]
        return world.rows or world.requests

    def num_pages(self, shapes: tuple[Shape, ...]) -> int:
        longest = max(shape.longest for shape in shapes)
        return -(-longest // self.page_size) + self.more_pages


class Block(NamedTuple):
    """All streams of these requests in this setting: the unit of work."""

    setting: Setting
    shapes: tuple[Shape, ...]


class Abort(NamedTuple):
    """``uid`` is cancelled by a message that the turn ``turn`` receives; turns count from 0."""

    turn: int
    uid: int


class Case(NamedTuple):
    """One run: a setting and a stream. ``arrivals`` are turns, one per request, rising."""

    setting: Setting
    shapes: tuple[Shape, ...]
    common: Common
    arrivals: tuple[int, ...]
    abort: Abort | None = None


def settings(world: World) -> Iterator[Setting]:
    for size, more, loop, policy in product(world.page_sizes, POOLS, LOOPS, CACHES):
        yield Setting(world.name, size, more, loop, policy)


@cache
def blocks() -> tuple[Block, ...]:
    """The whole bound, short streams first within each setting."""
    found: list[Block] = []
    for world in WORLDS.values():
        together = list(product(world.shapes(), repeat=world.requests))
        together.sort(key=lambda shapes: sum(s.prompt + s.outputs for s in shapes))
        for setting in settings(world):
            found += [Block(setting, shapes) for shapes in together]
    return tuple(found)


def agreements(block: Block) -> Iterator[tuple[Common, list[list[int]]]]:
    """How far the tokens agree, and the tokens. The naive cache never looks at one."""
    if block.setting.cache == "naive":
        yield no_agreement(block.shapes)
    else:
        yield from patterns(block.shapes, overlap=block.setting.overlap)


def arrivals(block: Block) -> Iterator[tuple[int, ...]]:
    """The turns at which the requests come, in order of their uids."""
    world = WORLDS[block.setting.world]
    if world.last_arrival is None:
        for turn in range(turns_alone(block.shapes[0], block.setting) + 1):
            yield 0, turn
    else:
        turns = range(world.last_arrival + 1)
        for later in combinations_with_replacement(turns, world.requests - 1):
            yield 0, *later


def turns_alone(shape: Shape, setting: Setting) -> int:
    """Turns until a request that has the engine to itself is done and nothing is on the device."""
    chunks = -(-shape.prompt // setting.budget)
    steps = chunks + shape.outputs - 1
    return steps + 1 + int(shape.early) if setting.overlap else steps


def aborts(block: Block, arrived: tuple[int, ...], ended: list[int]) -> Iterator[Abort]:
    """Each turn of each request's life, by the run without an abort, and just after.

    ``ended``: the turns in which the last tokens were shown. Up to the abort both runs are the
    same. A request that ended is known for one turn more if an overlapping step was on the device;
    of the turns at which nothing of it is left, whose aborts do nothing, the first is kept.
    """
    if not WORLDS[block.setting.world].aborts:
        return
    after = 2 if block.setting.overlap else 1
    for uid, (first, last) in enumerate(zip(arrived, ended, strict=True)):
        for turn in range(first, last + after + 1):
            yield Abort(turn, uid)
