"""A whole scheduler over a made-up engine, small enough to write its state down by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from minisgl_lite.core import Req, SamplingParams
from minisgl_lite.engine.scripted import ScriptedEngine
from minisgl_lite.message import AbortBackendMsg, DetokenizeMsg, UserMsg
from minisgl_lite.scheduler import Scheduler, SchedulerConfig
from minisgl_lite.scheduler.io import MessageQueue

EOS = 99
LOOPS = ("normal", "overlap", "late")
"""The plain loop; the overlapped one on a device that runs at once; and on one that runs late."""


@dataclass
class World:
    """One scheduler, turned by hand. `loop` is one of LOOPS."""

    scheduler: Scheduler
    io: MessageQueue
    loop: str
    data: Any = None
    batches: list[tuple[str, list[int]]] = field(default_factory=list)
    """(phase, uids) of every batch, in order of launch."""
    extends: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """uid -> (cached_len, extend_len) of each of its prefill steps."""

    @property
    def engine(self) -> Any:
        return self.scheduler.engine

    @property
    def cache(self) -> Any:
        return self.scheduler.cache_manager

    def add(self, uid: int, ids: Sequence[int], max_tokens: int = 1, **params: Any) -> None:
        sampling = SamplingParams(max_tokens=max_tokens, **params)
        self.io.send(UserMsg(uid, torch.tensor(list(ids), dtype=torch.int32), sampling))

    def abort(self, uid: int) -> None:
        self.io.send(AbortBackendMsg(uid))

    def step(self, turns: int = 1) -> None:
        for _ in range(turns):
            if self.loop == "normal":
                self.scheduler.normal_loop()
            else:
                self.data = self.scheduler.overlap_loop(self.data)

    def run(self, at_most: int = 1000) -> int:
        """Turn until idle; the number of turns. Raises when it does not come to rest."""
        for turns in itertools.count(0):
            if not self.busy:
                return turns
            assert turns < at_most, f"still busy after {at_most} turns"
            self.step()
        raise AssertionError

    @property
    def busy(self) -> bool:
        return self.scheduler.has_work or self.data is not None or bool(self.io.waiting)

    # --- what the world looks like ---------------------------------------------------------------

    @property
    def replies(self) -> list[tuple[int, int, bool]]:
        return [(r.uid, r.next_token, r.finished) for r in self.io.replies]

    def replies_of(self, uid: int) -> list[tuple[int, bool]]:
        return [(r.next_token, r.finished) for r in self.io.replies if r.uid == uid]

    def reasons_of(self, uid: int) -> list[str | None]:
        return [r.reason for r in self.io.replies if r.uid == uid]

    def tokens_of(self, uid: int) -> list[int]:
        return [r.next_token for r in self.io.replies if r.uid == uid]

    def error_of(self, uid: int) -> str:
        """The one error message of a refused request."""
        (reply,) = [r for r in self.io.replies if r.uid == uid]
        assert isinstance(reply, DetokenizeMsg)
        assert reply.next_token == -1 and reply.finished
        assert reply.reason is not None and reply.reason.startswith("error: ")
        assert "\n" not in reply.reason
        return reply.reason

    @property
    def free(self) -> list[int]:
        return self.cache.free_slots.tolist()

    @property
    def sizes(self) -> tuple[int, int]:
        """(evictable, protected) tokens of the prefix cache."""
        return tuple(self.cache.prefix_cache.size_info)

    @property
    def free_rows(self) -> int:
        return self.scheduler.table_manager.available_size

    def live(self, uid: int) -> Req:
        (req,) = [req for req in self.scheduler.live_reqs() if req.uid == uid]
        return req

    def row(self, uid: int, length: int | None = None) -> list[int]:
        req = self.live(uid)
        end = req.cached_len if length is None else length
        return self.engine.page_table[req.table_idx, :end].tolist()


def make_world(
    num_pages: int = 16,
    page_size: int = 1,
    *,
    loop: str = "normal",
    cache: str = "radix",
    rows: int = 8,
    budget: int = 8192,
    eos: int | Sequence[int] = EOS,
    engine: type[ScriptedEngine] = ScriptedEngine,
    **engine_args: Any,
) -> World:
    """`engine_args` go to the engine: script, max_seq_len, graph_bs, vocab_size."""
    made = engine(num_pages, page_size, max_running_req=rows, late=loop == "late", **engine_args)
    config = SchedulerConfig(
        page_size=page_size,
        max_running_req=rows,
        max_extend_tokens=budget,
        cache_type=cache,
        eos_token_id=eos,
    )
    io = MessageQueue()
    world = World(Scheduler(config, made, io), io, loop)
    _note_batches(world)
    return world


def _note_batches(world: World) -> None:
    """Keep what each batch was, taken where the engine gets it (no hooks: they are under test)."""
    launch = world.engine.forward_batch

    def forward_batch(batch: Any, args: Any) -> Any:
        world.batches.append((batch.phase, [req.uid for req in batch.reqs]))
        if batch.is_prefill:
            for req in batch.reqs:
                world.extends.setdefault(req.uid, []).append((req.cached_len, req.extend_len))
        return launch(batch, args)

    world.engine.forward_batch = forward_batch
