"""A made-up engine that costs little: its pool is a list, and its reads are checked at once.

The pool's shadow is the pool itself. A slot of a layer holds the number of the prefix whose K/V it
would hold, layers apart; so one comparison of lists tells whether every slot that a request is
about to read holds its own prefix. Writes go where ``out_loc`` says, reads where the request's row
says, both as they stood when the batch was prepared, and the tokens are those that the scheduler
gathered: nothing is taken from the engine's own bookkeeping. It is the sanitizer's check
(``minisgl_lite.trace``) without its words.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import torch

from minisgl_lite.core import Batch
from minisgl_lite.engine.engine import ForwardOutput
from minisgl_lite.engine.scripted import LateStream, NowStream
from minisgl_lite.engine.tables import make_page_table
from minisgl_lite.message import UserMsg

from .naming import EOS

LAYERS = 2
JUNK = EOS - 1
"""What a chunk or a step after the end would say: never to be seen again."""


class Violation(Exception):
    """Something that must never happen in any stream."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Cast(NamedTuple):
    """The requests of a stream with their names. Shared by many runs; none may change it."""

    tokens: list[list[int]]
    prompts: list[int]
    contents: list[list[list[int]]]
    """Request, layer, position: what the token's slot must hold."""
    prefixes: dict[tuple[int, int], int]
    """(number of a prefix, token) -> number of the longer prefix; 0 is the empty one."""
    messages: list[UserMsg]
    replies: list[list[tuple[int, bool, str | None]]]


class Metadata(NamedTuple):
    """What one request of a prepared batch reads: values, no views."""

    uid: int
    start: int
    slots: list[int]


class Device:
    """Stands where an ``Engine`` stands, and its backend, sampler and graph runner."""

    sampler: Any

    def __init__(self, num_pages: int, page_size: int, rows: int, cast: Cast, late: bool) -> None:
        self.num_pages = num_pages
        self.max_seq_len = num_pages * page_size
        self.page_table = make_page_table(
            rows, self.max_seq_len, num_pages, page_size, torch.device("cpu")
        )
        self.stream: LateStream | NowStream = LateStream() if late else NowStream()
        self.graph_runner = self.attn_backend = self.sampler = self
        slots = (num_pages + 1) * page_size  # the last page is the dummy page
        self.pool: list[list[int]] = [[-1] * slots for _ in range(LAYERS)]
        self.cast = cast
        self.launches = 0
        self.dead: set[int] = set()
        """Requests that ended or were aborted: no batch may hold one any more."""
        self.violation: Violation | None = None

    def pad_batch(self, batch: Batch) -> None:
        batch.padded_reqs = batch.reqs

    def prepare_metadata(self, batch: Batch) -> None:
        table = self.page_table
        batch.attn_metadata = [  # type: ignore[assignment]
            Metadata(req.uid, req.cached_len, table[req.table_idx].tolist()[: req.device_len])
            for req in batch.padded_reqs
        ]

    def prepare(self, batch: Batch) -> None:
        """The sampler's arguments: there is nothing to draw."""

    def forward_batch(self, batch: Batch, args: None) -> ForwardOutput:
        self.launches += 1
        for req in batch.reqs:
            if req.uid in self.dead:
                self.fail("runs on", f"request {req.uid} is launched though it is over")
        answers = torch.zeros(len(batch.reqs), dtype=torch.int32)
        self.stream.issue(lambda: self.run(batch, answers))
        event = self.stream.event()
        for req in batch.reqs:
            req.complete_one()
        return ForwardOutput(answers, answers, event)

    def run(self, batch: Batch, answers: torch.Tensor) -> None:
        """The step: store each layer's new K/V, check what is read, say what the script says."""
        ids, positions = batch.input_ids.tolist(), batch.positions.tolist()
        out_loc = batch.out_loc.tolist()
        members: list[Metadata] = batch.attn_metadata  # type: ignore[assignment]
        said: list[int] = []
        at = 0
        for uid, start, slots in members:
            tokens, end = self.cast.tokens[uid], len(slots)
            fed, places = ids[at : at + end - start], positions[at : at + end - start]
            if fed != tokens[start:end]:
                text = f"request {uid} is fed {fed} at [{start}, {end}), not {tokens[start:end]}"
                self.fail("wrong token", text)
            if places != list(range(start, end)):
                self.fail("wrong position", f"request {uid} is at {places}, not [{start}, {end})")
            contents = self.cast.contents[uid]
            for layer in range(LAYERS):
                self.store(layer, out_loc[at : at + end - start], contents[layer][start:end])
            at += end - start
            said.append(tokens[end] if self.cast.prompts[uid] <= end < len(tokens) else JUNK)
        for layer in range(LAYERS):  # all of a layer is stored before any of it is read
            for uid, _, slots in members:
                expected = self.cast.contents[uid][layer][: len(slots)]
                if self.read(layer, slots) != expected:
                    self.fail("wrong read", self.describe(layer, uid, slots, expected))
        answers.copy_(torch.tensor(said, dtype=torch.int32))

    def fail(self, kind: str, text: str) -> NoReturn:
        """The first violation is the one to report: the engine may fail in another way over it."""
        violation = Violation(kind, text)
        self.violation = self.violation or violation
        raise violation

    def store(self, layer: int, slots: list[int], contents: list[int]) -> None:
        pool = self.pool[layer]
        for slot, content in zip(slots, contents, strict=True):
            pool[slot] = content

    def read(self, layer: int, slots: list[int]) -> list[int]:
        pool = self.pool[layer]
        return [pool[slot] for slot in slots]

    def describe(self, layer: int, uid: int, slots: list[int], expected: list[int]) -> str:
        found = self.read(layer, slots)
        at = next(i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b)
        whose = [
            f"request {other}'s position {contents[layer].index(found[at])}"
            for other, contents in enumerate(self.cast.contents)
            if found[at] in contents[layer]
        ]
        held = " and ".join(whose) or "nothing of this layer that was ever written"
        return f"request {uid}, layer {layer}, position {at}: slot {slots[at]} holds {held}"
