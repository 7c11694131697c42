"""The same small world on any side: our engine, ours with published behaviours, or mini-sglang.

A side is "corrected"; names of behaviours, joined by "+"; "all" of them; or "minisgl", the
published scheduler itself from the clone in MINISGL_PATH.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest
from helpers.world import EOS, World

from minisgl_lite.engine.scripted import ScriptedEngine
from minisgl_lite.scheduler import SchedulerConfig
from minisgl_lite.scheduler.io import MessageQueue
from minisgl_lite.teaching.clone import COMMIT, PATH_VARIABLE, load_minisgl
from minisgl_lite.teaching.published import PUBLISHED, published_scheduler
from minisgl_lite.teaching.reference import reference_scheduler

MINISGL = pytest.param("minisgl", marks=pytest.mark.reference)


def minisgl() -> Any:
    """The clone's modules; skips the test where no clone of the right commit is named."""
    if not os.environ.get(PATH_VARIABLE):
        pytest.skip(f"{PATH_VARIABLE} is not set: no clone of mini-sglang to compare with")
    modules = load_minisgl()
    if not (modules.commit or COMMIT).startswith(COMMIT):
        pytest.skip(f"the clone is at {modules.commit}, not at {COMMIT}")
    return modules


def scheduler_of(side: str, config: SchedulerConfig, engine: Any, io: MessageQueue) -> Any:
    if side == "minisgl":
        return reference_scheduler(minisgl())(config, engine, io)
    return published_scheduler(*names_of(side))(config, engine, io)


def names_of(side: str) -> list[str]:
    if side == "corrected":
        return []
    return PUBLISHED.supported_names() if side == "all" else side.split("+")


def make_side(
    side: str,
    num_pages: int,
    page_size: int,
    *,
    loop: str = "normal",
    cache: str = "radix",
    rows: int = 8,
    budget: int = 8192,
    eos: int | Sequence[int] = EOS,
    engine: type[ScriptedEngine] = ScriptedEngine,
    **engine_args: Any,
) -> World:
    """A ``World`` of that side; ``loop`` is "normal", "overlap" or "late"."""
    made = engine(num_pages, page_size, max_running_req=rows, late=loop == "late", **engine_args)
    config = SchedulerConfig(
        page_size=page_size,
        max_running_req=rows,
        max_extend_tokens=budget,
        cache_type=cache,
        eos_token_id=eos,
    )
    io = MessageQueue()
    return World(scheduler_of(side, config, made, io), io, loop)


class WatchingEngine(ScriptedEngine):
    """Says what its script says; notes each request that reads a slot with another prefix.

    ``held[slot]`` is the prefix whose K/V the slot was written for; the truth about a request is
    its prompt and what was sampled for it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.held: list[tuple[int, ...] | None] = [None] * (
            (self.num_pages + 1) * self.ctx.page_size
        )
        self.truth: dict[int, tuple[int, ...]] = {}
        self.bad_reads: list[tuple[int, str, int]] = []
        """(uid, phase, first wrong position) of each step of a request that reads one."""
        self.fed: dict[int, list[int]] = {}
        """uid -> the ids that the model was given for it, in order."""
        self.fed_in_order: list[tuple[int, int]] = []
        self.wrong_ids: list[tuple[int, int]] = []
        """(uid, position) of each of them that is not the request's own."""

    def _run(self, batch: Any, outputs: Any, next_tokens: Any) -> None:
        out_loc, ids = batch.out_loc.tolist(), batch.input_ids.tolist()
        positions = batch.positions.tolist()
        at = 0
        for req, device_len in outputs:
            if batch.is_prefill:
                self.truth[req.uid] = tuple(req.input_ids[:device_len].tolist())
            truth = self.truth[req.uid]
            assert len(truth) == device_len
            for position in range(positions[at], device_len):
                self.held[out_loc[at]] = truth[: position + 1]
                self.fed.setdefault(req.uid, []).append(ids[at])
                self.fed_in_order.append((req.uid, ids[at]))
                if ids[at] != truth[position]:
                    self.wrong_ids.append((req.uid, position))
                at += 1
        for i, (req, device_len) in enumerate(outputs):
            self._read_all(batch, req, batch.attn_metadata[i].tolist())
            next_tokens[i] = token = self._answer(req, device_len, batch.attn_metadata[i])
            self.truth[req.uid] += (token,)

    def _read_all(self, batch: Any, req: Any, table: list[int]) -> None:
        truth = self.truth[req.uid]
        for position, slot in enumerate(table):
            if self.held[slot] != truth[: position + 1]:
                self.bad_reads.append((req.uid, batch.phase, position))
                return
