"""Who owns each page, as the hooks tell it: the sanitizer's second opinion on ``free_slots``.

A page is free, in the prefix cache, or one request's own. Each hand-out and each return is checked
against that, and a returned page against the rows of all living requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ..text import say
from .faults import Fault

FREE = "free"
CACHED = "cached"


@dataclass
class LiveRow:
    """A table row in use: whose it is, and how many of its cells mean something."""

    uid: int
    end: int


class PageOwners:
    """``owner``: FREE, CACHED, or a request's uid, for each page of the managed pool.

    Every change is noted even when it is a fault, so that one fault does not make others.
    """

    def __init__(self, num_pages: int, page_size: int, page_table: torch.Tensor) -> None:
        self.num_pages, self.page_size = num_pages, page_size
        self.page_table = page_table
        self.owner: list[str | int] = [FREE] * num_pages
        self.rows: dict[int, LiveRow] = {}
        self._granted: dict[int, tuple[int, int]] = {}

    # ---- questions -----------------------------------------------------------------------------
    def of_slot(self, slot: int) -> str | int | None:
        """The owner of a slot's page; None outside the managed pool."""
        inside = 0 <= slot < self.num_pages * self.page_size
        return self.owner[slot // self.page_size] if inside else None

    def describe(self, slot: int) -> str:
        """The owner of a slot, to end a sentence with."""
        owner = self.of_slot(slot)
        if owner is None:
            dummy = slot // self.page_size == self.num_pages
            return say(f"sanitizer.owner.{'dummy' if dummy else 'outside'}")
        if owner in (FREE, CACHED):
            return say(f"sanitizer.owner.{owner}")
        return say("sanitizer.owner.request", uid=owner)

    def readers(self, start: int) -> Iterator[tuple[int, int]]:
        """(uid, first position) of each living row that points into the page."""
        for row, live in self.rows.items():
            cells = self.page_table[row, : live.end]
            hits = ((cells >= start) & (cells < start + self.page_size)).nonzero()
            if len(hits) > 0:
                yield live.uid, int(hits[0])

    # ---- hand out and take back, each with what is wrong about it ------------------------------
    def hand_out(
        self, turn: int, uid: int, row: int, first_page: int, starts: list[int]
    ) -> Iterator[Fault]:
        """Pages go to request ``uid``, as its pages from ``first_page`` on."""
        for page, start in enumerate(starts, start=first_page):
            where = {"uid": uid, "position": page * self.page_size, "slot": start}
            if (misfit := self._misfit(start)) is not None:
                text = say(
                    "sanitizer.handed.misfit", turn=turn, start=start, uid=uid, misfit=misfit
                )
                wanted = say("sanitizer.want.free")
                yield Fault("not-a-page", text, turn, **where, expected=wanted, found=misfit)
                continue
            if self.of_slot(start) != FREE:
                found = self.describe(start)
                text = say(
                    "sanitizer.handed.twice",
                    turn=turn,
                    page=start // self.page_size,
                    found=found,
                    **where,
                )
                wanted = say("sanitizer.want.free")
                yield Fault("handed-out-twice", text, turn, **where, expected=wanted, found=found)
            self.owner[start // self.page_size] = uid
            self._granted[start] = (row, page)
        if (live := self.rows.get(row)) is not None:
            live.end = max(live.end, (first_page + len(starts)) * self.page_size)

    def take_back(self, turn: int, starts: list[int], *, evicted: bool) -> Iterator[Fault]:
        """Pages return to the free queue, from a request or by eviction."""
        verb = "evicted" if evicted else "freed"
        for start in starts:
            self._take_back_grant(start)
            page = start // self.page_size
            values = {"turn": turn, "page": page, "slot": start}
            if (misfit := self._misfit(start)) is not None:
                text = say(f"sanitizer.{verb}.misfit", **values, misfit=misfit)
                wanted = say("sanitizer.want.page")
                yield Fault("not-a-page", text, turn, slot=start, expected=wanted, found=misfit)
                continue
            if self.owner[page] == FREE:
                text = say(f"sanitizer.{verb}.free", **values)
                wanted, found = say("sanitizer.want.used"), say("sanitizer.found.free")
                yield Fault("double-free", text, turn, slot=start, expected=wanted, found=found)
            elif self.owner[page] == CACHED and not evicted:
                text = say("sanitizer.freed.cached", **values)
                wanted, found = say("sanitizer.want.own"), say("sanitizer.found.cached")
                yield Fault(
                    "freed-while-cached", text, turn, slot=start, expected=wanted, found=found
                )
            for uid, position in self.readers(start):
                text = say(f"sanitizer.{verb}.read", **values, uid=uid, position=position)
                wanted = say("sanitizer.want.unread")
                yield Fault(
                    f"{verb}-in-use", text, turn, uid, position, slot=start, expected=wanted
                )
                break
            self.owner[page] = FREE

    def launched(self) -> None:
        """The step runs: what was handed out for it can't simply be handed back any more."""
        self._granted = {}

    def _take_back_grant(self, start: int) -> None:
        """A step that failed before it ran gives back its pages, and its row ends earlier again."""
        row, page = self._granted.pop(start, (-1, 0))
        if row in self.rows:
            self.rows[row].end = min(self.rows[row].end, page * self.page_size)

    def register(self, slots: list[int]) -> None:
        """Whole pages are in the prefix cache from now on."""
        for slot in slots[:: self.page_size]:
            if self._misfit(slot) is None:
                self.owner[slot // self.page_size] = CACHED

    def _misfit(self, start: int) -> str | None:
        """What is wrong with a page start by itself, if anything."""
        if self.of_slot(start) is None:
            return self.describe(start)
        if start % self.page_size:
            return say("sanitizer.owner.inside", P=self.page_size)
        return None
