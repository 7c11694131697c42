"""Small worlds for the trace's tests: a scripted engine, its scheduler, and random streams."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from minisgl_lite.core import SamplingParams
from minisgl_lite.engine.scripted import Script, ScriptedEngine
from minisgl_lite.message import AbortBackendMsg, UserMsg
from minisgl_lite.scheduler import MessageQueue, Scheduler, SchedulerConfig

torch.set_num_threads(1)

EOS = 99


def make_scheduler(
    *,
    num_pages: int = 8,
    page_size: int = 4,
    rows: int = 4,
    cache_type: str = "radix",
    budget: int = 64,
    eos: int | tuple[int, ...] = (),
    script: Script | None = None,
    late: bool = False,
    graph_bs: Sequence[int] = (),
    **kwargs: Any,
) -> Scheduler:
    """A scheduler over a scripted engine; by default its tokens follow from what is really read."""
    engine = ScriptedEngine(
        num_pages, page_size, max_running_req=rows, script=script, late=late, graph_bs=graph_bs
    )
    config = SchedulerConfig(
        page_size=page_size,
        max_running_req=rows,
        max_extend_tokens=budget,
        cache_type=cache_type,
        eos_token_id=eos,
    )
    return Scheduler(config, engine, MessageQueue(), **kwargs)


def send(scheduler: Scheduler, uid: int, prompt: Sequence[int], max_tokens: int = 3) -> None:
    ids = torch.tensor(list(prompt), dtype=torch.int32)
    scheduler.io.send(UserMsg(uid, ids, SamplingParams(max_tokens=max_tokens)))


def abort(scheduler: Scheduler, uid: int) -> None:
    scheduler.io.send(AbortBackendMsg(uid))


def finish(scheduler: Scheduler) -> None:
    """Turn the normal loop until all is answered."""
    while scheduler.has_work or scheduler.io.waiting:
        scheduler.normal_loop()


def run_stream(
    scheduler: Scheduler,
    seed: int,
    *,
    num_reqs: int = 8,
    overlap: bool = False,
    aborts: bool = True,
    longest: int = 14,
    after_turn: Callable[[], None] = lambda: None,
) -> None:
    """Random prompts over shared prefixes, arriving and aborted at random turns, run to the end."""
    rng = random.Random(seed)
    stems = [[rng.randrange(3) for _ in range(longest)] for _ in range(2)]
    turns = [rng.randrange(3 * num_reqs) for _ in range(num_reqs)]
    waiting = sorted(zip(turns, range(num_reqs), strict=True))
    sent: list[int] = []
    data, turn = None, 0
    while waiting or scheduler.has_work or data is not None:
        while waiting and waiting[0][0] <= turn:
            uid = waiting.pop(0)[1]
            stem = rng.choice(stems)[: rng.randrange(longest)]
            prompt = stem + [rng.randrange(100, 103) for _ in range(rng.randrange(1, 4))]
            send(scheduler, uid, prompt, rng.randrange(1, 8))
            sent.append(uid)
        if aborts and sent and rng.random() < 0.15:
            abort(scheduler, rng.choice(sent))
        if overlap:
            data = scheduler.overlap_loop(data)
        else:
            scheduler.normal_loop()
        after_turn()
        turn += 1
