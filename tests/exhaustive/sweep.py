"""Going through streams: a block, the whole bound, a sample of it, or until a fault shows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from .device import Violation
from .naming import Common
from .play import RIGHT, Cast, Kit, Outcome, make_cast, play
from .worlds import Abort, Block, Case, aborts, agreements, arrivals, blocks


class Finding(NamedTuple):
    """A stream that went wrong, and what went wrong first."""

    case: Case
    kind: str
    text: str


class Tally(NamedTuple):
    """What was run. Tallies add up with ``plus``."""

    runs: int = 0
    turns: int = 0
    findings: tuple[Finding, ...] = ()

    def plus(self, other: Tally) -> Tally:
        return Tally(
            self.runs + other.runs, self.turns + other.turns, self.findings + other.findings
        )


class Player:
    """Runs the streams of a block, counts them and keeps the violations."""

    def __init__(self, kit: Kit = RIGHT) -> None:
        self.kit = kit
        self.runs = self.turns = 0
        self.findings: list[Finding] = []

    @property
    def tally(self) -> Tally:
        return Tally(self.runs, self.turns, tuple(self.findings))

    def run_block(self, block: Block) -> None:
        for common, tokens in agreements(block):
            cast = make_cast(block.shapes, tokens)
            for arrived in arrivals(block):
                self.run_stream(block, common, cast, arrived)

    def run_stream(
        self, block: Block, common: Common, cast: Cast, arrived: tuple[int, ...]
    ) -> None:
        """The stream without an abort, then with each abort that its course allows."""
        outcome = self.run_once(block, common, cast, arrived, None)
        if outcome is None:
            return  # NOTE: the aborts' turns are not known, and a violation is enough
        for abort in aborts(block, arrived, outcome.ended):
            self.run_once(block, common, cast, arrived, abort)

    def run_once(
        self,
        block: Block,
        common: Common,
        cast: Cast,
        arrived: tuple[int, ...],
        abort: Abort | None,
    ) -> Outcome | None:
        self.runs += 1
        try:
            outcome = play(block.setting, block.shapes, cast, arrived, abort, self.kit)
        except Violation as violation:
            case = Case(block.setting, block.shapes, common, arrived, abort)
            self.findings.append(Finding(case, violation.kind, str(violation)))
            return None
        self.turns += outcome.turns
        return outcome


def run_blocks(some: Iterable[Block], kit: Kit = RIGHT) -> Tally:
    player = Player(kit)
    for block in some:
        player.run_block(block)
    return player.tally


def run_case(case: Case, kit: Kit = RIGHT) -> Outcome:
    """Run one stream again. Raises Violation."""
    block = Block(case.setting, case.shapes)
    tokens = dict(agreements(block))[case.common]
    return play(
        case.setting, case.shapes, make_cast(case.shapes, tokens), case.arrivals, case.abort, kit
    )


def hunt(kit: Kit, fits: Callable[[Block], bool]) -> tuple[int, Finding | None]:
    """Run streams of the blocks that fit until one goes wrong: the runs made, and the finding."""
    player = Player(kit)
    for block in filter(fits, blocks()):
        player.run_block(block)
        if player.findings:
            return player.runs, player.findings[0]
    return player.runs, None


def sample(streams: int, seed: int = 1) -> Iterator[tuple[Block, Common, Cast, tuple[int, ...]]]:
    """``streams`` streams of each setting of each world, drawn from the seed alone.

    Each comes without its abort: ``Player.run_stream`` adds all of them.
    """
    for setting, group in groupby(blocks(), key=lambda block: block.setting):
        some = list(group)
        rng = random.Random(f"{seed} {setting}")
        for _ in range(streams):
            block = rng.choice(some)
            common, tokens = rng.choice(list(agreements(block)))
            arrived = rng.choice(list(arrivals(block)))
            yield block, common, make_cast(block.shapes, tokens), arrived


def run_sample(streams: int, seed: int = 1, kit: Kit = RIGHT) -> dict[str, Tally]:
    """By world: what ``streams`` streams of each setting, with all their aborts, came to."""
    tallies: dict[str, Tally] = {}
    for block, common, cast, arrived in sample(streams, seed):
        player = Player(kit)
        player.run_stream(block, common, cast, arrived)
        world = block.setting.world
        tallies[world] = tallies.get(world, Tally()).plus(player.tally)
    return tallies
