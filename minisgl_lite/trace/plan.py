"""What a prepared batch is going to write and read, in the lengths it had when it was prepared.

Lengths move on at launch, and under overlap the device may run a step when the host is a turn
ahead: so the sanitizer notes them once and asks no request again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import torch

from ..text import say
from .faults import Fault
from .shadow import Chain

if TYPE_CHECKING:
    from ..core import Batch, Req
    from .pages import PageOwners


class Place(NamedTuple):
    """One token: whose it is and where it stands in its request."""

    uid: int
    position: int


class Reads(NamedTuple):
    """Every slot the batch reads and the prefix it has to hold, (n,) int64 each, and for whom.

    ``outside``: slots beyond the pool, by index; in ``slots`` the dummy page stands in for them.
    """

    slots: torch.Tensor
    prefix: torch.Tensor
    places: list[Place]
    chains: list[Chain]
    outside: dict[int, int]


@dataclass
class Member:
    """A request of a batch. The dummy has no chain."""

    uid: int
    row: int
    cached_len: int
    device_len: int
    chain: Chain | None


@dataclass
class Plan:
    """``places`` are the real tokens in model order; ``index``: where they stand among all T."""

    batch: Batch
    turn: int
    members: list[Member]
    places: list[Place]
    index: torch.Tensor  # (n,) int64
    slots: torch.Tensor  # (n,) int64, out_loc of the places
    padded: bool  # whether there are others in the batch, the dummy's
    layers: set[int] = field(default_factory=set)  # that have stored
    told: set[int] = field(default_factory=set)  # whose reads were found wrong
    prefix: torch.Tensor | None = None  # (n,) int64, once the ids are known
    writer: torch.Tensor = field(init=False)  # (n, 3) int32
    reads: Reads | None = None

    def __post_init__(self) -> None:
        who = [(place.uid, place.position, self.turn) for place in self.places]
        self.writer = torch.tensor(who, dtype=torch.int32, device=self.slots.device).view(-1, 3)

    def real(self) -> Iterator[tuple[Member, Chain]]:
        for member in self.members:
            if member.chain is not None:
                yield member, member.chain


def make_plan(batch: Batch, turn: int, chains: dict[int, Chain]) -> Plan:
    """The plan of a prepared batch; ``chains`` by uid, of the requests that live."""
    members: list[Member] = []
    places: list[Place] = []
    index: list[int] = []
    at = 0
    for req in batch.padded_reqs:
        chain = None if _is_dummy(req) else chains.get(req.uid) or Chain(req.input_ids.tolist())
        members.append(Member(req.uid, req.table_idx, req.cached_len, req.device_len, chain))
        if chain is not None:
            places += [Place(req.uid, pos) for pos in range(req.cached_len, req.device_len)]
            index += range(at, at + req.extend_len)
        at += req.extend_len
    where = torch.tensor(index, dtype=torch.int64, device=batch.out_loc.device)
    slots = batch.out_loc.long()
    padded = len(index) < at
    return Plan(batch, turn, members, places, where, slots[where] if padded else slots, padded)


def _is_dummy(req: Req) -> bool:
    return req.uid < 0


def check_positions(plan: Plan) -> Iterator[Fault]:
    """Each token must be computed for the position it has in its request."""
    given = plan.batch.positions[plan.index].tolist()
    for place, position in zip(plan.places, given, strict=True):
        if position != place.position:
            text = say("sanitizer.position", turn=plan.turn, found=position, **place._asdict())
            yield Fault(
                "wrong-position",
                text,
                plan.turn,
                *place,
                expected=str(place.position),
                found=str(position),
            )


def check_places(plan: Plan, pages: PageOwners) -> Iterator[Fault]:
    """Each token must go to a page of its own request, where the request's row says."""
    row_of = {member.uid: member.row for member in plan.members}
    rows = [row_of[place.uid] for place in plan.places]
    cells = pages.page_table[rows, [place.position for place in plan.places]].tolist()
    for place, slot, cell in zip(plan.places, plan.slots.tolist(), cells, strict=True):
        if pages.of_slot(slot) == place.uid and cell == slot:
            continue
        owner = pages.describe(slot)
        mine = pages.of_slot(slot) == place.uid
        text = say(
            "sanitizer.place",
            turn=plan.turn,
            slot=slot,
            owner=owner,
            cell=cell,
            **place._asdict(),
        )
        yield Fault(
            "write-place",
            text,
            plan.turn,
            *place,
            slot=slot,
            expected=say("sanitizer.want.cell", cell=cell),
            found=say("sanitizer.found.cell", cell=cell) if mine else owner,
        )
    if plan.padded:
        yield from _check_dummies(plan, pages)


def _check_dummies(plan: Plan, pages: PageOwners) -> Iterator[Fault]:
    padding = torch.ones(len(plan.batch.out_loc), dtype=torch.bool, device=plan.index.device)
    padding[plan.index] = False
    for slot in plan.batch.out_loc[padding].tolist():
        if pages.of_slot(slot) is not None:
            owner = pages.describe(slot)
            text = say("sanitizer.padding", turn=plan.turn, slot=slot, owner=owner)
            wanted = say("sanitizer.want.dummy")
            yield Fault("write-place", text, plan.turn, slot=slot, expected=wanted)


def feed(plan: Plan) -> Iterator[Fault]:
    """Take the ids the model was given, which must be the requests' own, and hash the prefixes."""
    ids = plan.batch.input_ids
    given = (ids[plan.index] if plan.padded else ids).tolist()
    chains = {member.uid: chain for member, chain in plan.real()}
    for place, token in zip(plan.places, given, strict=True):
        own = chains[place.uid].feed(place.position, token)
        if own is not None:
            yield wrong_token(plan.turn, place, own, token)
    prefix = [chains[place.uid].hash(place.position) for place in plan.places]
    plan.prefix = torch.tensor(prefix, dtype=torch.int64, device=plan.slots.device)


def wrong_token(turn: int, place: Place, own: int, given: int) -> Fault:
    text = say("sanitizer.token", turn=turn, given=given, own=own, **place._asdict())
    return Fault("wrong-token", text, turn, *place, expected=str(own), found=str(given))


def make_reads(plan: Plan, page_size: int, num_slots: int) -> Reads:
    """Where the batch reads, as its attention metadata holds it."""
    metadata = plan.batch.attn_metadata
    parts: list[torch.Tensor] = []
    prefix: list[int] = []
    places: list[Place] = []
    chains: list[Chain] = []
    for i, member in enumerate(plan.members):
        if member.chain is None:
            continue
        parts.append(_row_of(metadata, i, member.device_len, page_size))
        prefix += member.chain.hashes(member.device_len)
        places += [Place(member.uid, position) for position in range(member.device_len)]
        chains += [member.chain] * member.device_len
    slots = torch.cat(parts)
    beyond = (slots < 0) | (slots >= num_slots)
    outside = {int(at): int(slots[at]) for at in beyond.nonzero()[:, 0]}
    slots = slots.masked_fill(beyond, num_slots - 1)
    hashes = torch.tensor(prefix, dtype=torch.int64, device=slots.device)
    return Reads(slots, hashes, places, chains, outside)


def _row_of(metadata: object, i: int, length: int, page_size: int) -> torch.Tensor:
    """The slots of the batch's i-th request, (length,) int64.

    The metadata are a scripted engine's list of them, a table of slots, or a table of page ids.
    """
    slots = metadata if isinstance(metadata, list) else getattr(metadata, "slots", None)
    if slots is not None:
        return slots[i][:length].long()
    pages: torch.Tensor = metadata.page_table[i].long()  # type: ignore[attr-defined]
    offsets = torch.arange(page_size, device=pages.device)
    return (pages[:, None] * page_size + offsets).flatten()[:length]
