"""Faults put in on purpose, and the streams that show them.

Where a fault is one of mini-sglang's published behaviours, it is the one of
``minisgl_lite.teaching.published``; the others are in ``planted``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from minisgl_lite.scheduler import CacheManager, Managers, PrefillManager, TableManager
from minisgl_lite.teaching.published import PUBLISHED, published_managers

from .naming import Shape
from .planted import admission, device, pages, step, tree
from .play import Kit
from .worlds import Block


class Fault(NamedTuple):
    """What to put in, and where to look for it.

    ``fits``: the blocks of the bound that show it, all streams of the same few requests.
    ``unseen`` says why no run can show it; empty for a fault that must be found.
    """

    kit: Kit
    fits: Callable[[Block], bool]
    unseen: str = ""


def where(
    world: str,
    *shapes: tuple[int, ...],
    loop: str = "",
    cache: str = "",
    page_size: int = 0,
    more_pages: int | None = None,
) -> Callable[[Block], bool]:
    """Blocks of one world with these requests; of one loop, cache, P, pool where it is named."""
    wanted = tuple(Shape(*shape) for shape in shapes)

    def fits(block: Block) -> bool:
        setting = block.setting
        return (
            (setting.world, block.shapes) == (world, wanted)
            and loop in ("", setting.loop)
            and cache in ("", setting.cache)
            and page_size in (0, setting.page_size)
            and more_pages in (None, setting.more_pages)
        )

    return fits


def published(name: str) -> Kit:
    return Kit(scheduler=PUBLISHED[name].Loop, managers=published_managers(name))


def _cache(manager: type[CacheManager]) -> Kit:
    return Kit(managers=Managers(cache=manager))


def _table(manager: type[TableManager]) -> Kit:
    return Kit(managers=Managers(table=manager))


def _admission(manager: type[PrefillManager]) -> Kit:
    return Kit(managers=Managers(prefill=manager))


ONE_EACH = ((1, 1), (1, 1))
ONE_AND_TWO = ((1, 1), (1, 2))

FAULTS: dict[str, Fault] = {
    "stale row": Fault(published("stale-rows"), where("a", *ONE_AND_TWO)),
    "double free": Fault(_cache(pages.DoubleFree), where("a", *ONE_EACH)),
    "freed tail of a live request": Fault(_cache(pages.FreedTail), where("a", *ONE_AND_TWO)),
    "lost tail": Fault(_cache(pages.LostTail), where("a", *ONE_EACH)),
    "lost duplicate": Fault(_cache(pages.LostDuplicate), where("a", *ONE_EACH)),
    "dummy page handed out": Fault(_cache(pages.DummyPage), where("a", *ONE_EACH)),
    "unaligned page start": Fault(_cache(pages.OneSlotOffPages), where("a", *ONE_EACH)),
    "page handed out twice": Fault(_cache(pages.HandedOutTwice), where("a", *ONE_EACH)),
    "pages evicted as tokens": Fault(
        _cache(pages.EvictedPagesAsTokens),
        where("d", (1, 2), (1, 2), (3, 1), cache="radix", page_size=2),
    ),
    "whole prompt matched": Fault(_cache(pages.WholeMatch), where("a", *ONE_EACH)),
    "view of a row in the tree": Fault(_cache(pages.RowViews), where("a", (1, 2), (1, 1))),
    "row not given back": Fault(_table(pages.RowKept), where("a", *ONE_EACH)),
    "prompt token not copied": Fault(_table(pages.LastTokenOfRowLost), where("a", *ONE_EACH)),
    "missed lock": Fault(_cache(tree.NeverLocks.holding()), where("a", *ONE_AND_TWO)),
    "lock of the ancestors only": Fault(
        _cache(tree.LocksAncestorsOnly.holding()), where("a", *ONE_AND_TWO)
    ),
    "missed unlock": Fault(_cache(tree.NeverUnlocks.holding()), where("a", *ONE_AND_TWO)),
    "eviction of locked leaves": Fault(
        _cache(tree.EvictsLocked.holding()),
        where("d", (1, 2), (3, 1), (3, 2), cache="radix", page_size=1, more_pages=2),
    ),
    "split without its locks": Fault(
        _cache(tree.SplitForgetsLocks.holding()),
        where("a", (1, 2), (1, 1), loop="overlap", cache="radix"),
    ),
    "hit without a split": Fault(
        _cache(tree.MatchesTooMuch.holding()), where("a", (1, 2, 1), (3, 1))
    ),
    "part page registered": Fault(_cache(tree.InsertsPartPages.holding()), where("a", *ONE_EACH)),
    "token-wise admission": Fault(published("token-wise-admission"), where("b", *ONE_EACH)),
    "no second look after the lock": Fault(
        _admission(admission.NoSecondLook), where("d", (2, 2), (1, 1), (3, 1), page_size=2)
    ),
    "running requests forgotten": Fault(
        Kit(managers=Managers(decode=admission.ForgetsRunning)), where("a", (1, 3, 2), (1, 2))
    ),
    "batch-mates forgotten": Fault(
        _admission(admission.ForgetsBatchMates), where("a", (1, 2, 1), (1, 2, 1))
    ),
    "chunk forgotten": Fault(
        _admission(admission.ForgetsChunks), where("c", (3, 1), (1, 1), page_size=2)
    ),
    "chunk not released by an abort": Fault(
        _admission(admission.LostChunk), where("c", (1, 1), (2, 1))
    ),
    "chunk begins anew": Fault(_admission(admission.ChunkSkips), where("c", (1, 1), (2, 1))),
    "write before allocate": Fault(Kit(scheduler=step.LooksUpFirst), where("a", *ONE_EACH)),
    "positions from zero after a hit": Fault(
        Kit(scheduler=step.PositionsFromZero), where("a", (1, 1), (2, 1))
    ),
    "late abort": Fault(published("late-abort"), where("a", *ONE_EACH, loop="overlap")),
    "abort that forgets the device": Fault(
        Kit(scheduler=step.ForgetsOnDevice), where("a", *ONE_EACH)
    ),
    "ended request taken again": Fault(
        Kit(scheduler=step.ForgetsEnded), where("a", (1, 1), (1, 2, 1))
    ),
    "early finish": Fault(published("early-finish"), where("a", (1, 1), (1, 3))),
    "one token more": Fault(Kit(scheduler=step.OneTokenMore), where("a", *ONE_EACH)),
    "stop ignored": Fault(Kit(scheduler=step.IgnoresStop), where("a", (1, 1), (1, 1, 1))),
    "abort ignored": Fault(Kit(scheduler=step.NeverAborts), where("a", *ONE_EACH)),
    "row reuse": Fault(published("row-reuse"), where("a", (1, 2, 1), (2, 1))),
    "off-by-one slot": Fault(Kit(device=device.OneSlotOff), where("a", *ONE_EACH)),
    "layer left out": Fault(Kit(device=device.LayerLeftOut), where("a", *ONE_EACH)),
    "two layers mixed up": Fault(Kit(device=device.LayersMixedUp), where("a", *ONE_EACH)),
    "store in another order": Fault(Kit(device=device.StoresBackwards), where("a", (1, 1), (2, 1))),
    "overwrite of a foreign slot": Fault(
        Kit(device=device.OverwritesSlotZero), where("a", (1, 1), (1, 2))
    ),
    "token of a chunk kept": Fault(
        Kit(scheduler=step.ChunkSpeaks),
        where("c", (3, 1), (3, 1), loop="overlap", cache="radix", page_size=1),
        unseen=(
            "the next chunk's ids are written over it, after it in the device's order of work;"
            " a test of the scheduler looks at the token pool itself"
        ),
    ),
    "cold order": Fault(
        published("cold-partial-hits"),
        where("d", (2, 2), (3, 1), (3, 2), loop="normal", cache="radix", page_size=1),
        unseen=(
            "it changes which prefix is evicted first; every choice is safe, the wrong one costs a"
            " computation. Tests of the radix cache look at the order"
        ),
    ),
    "set order": Fault(
        published("set-order"),
        where("a", (1, 3), (2, 3), loop="overlap", cache="radix", page_size=1),
        unseen=(
            "each order of a batch gives every request its tokens; only two ranks that differ go"
            " wrong, and a run has one. Tests of the decode manager look at the order"
        ),
    ),
}

LEFT_OUT = {
    "padding row that writes a real slot": (
        "nothing is captured in these worlds, so no batch is padded; the random streams pad theirs"
    ),
    "ranks that differ": "these worlds have one rank",
}
"""Faults that other tests plant and that have no place here, and why."""
