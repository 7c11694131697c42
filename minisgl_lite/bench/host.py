"""What the scheduler itself costs: decode steps with the model left out.

The engine here answers at once and stores nothing, so that all that is left is the host's work:
batch, pages, positions, ``out_loc``, results.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import torch

from ..core import Batch, Context, SamplingParams
from ..engine.engine import ForwardOutput
from ..engine.graph import GraphRunner, make_dummy_req
from ..engine.sample import BatchSamplingArgs, Sampler
from ..engine.stream import HostStream
from ..engine.tables import make_page_table
from ..message import UserMsg
from ..scheduler import MessageQueue, Scheduler, SchedulerConfig


class _Done:
    def synchronize(self) -> None:
        pass


class NoModel:
    """An engine without a model or a pool: every token is 1, at once."""

    def __init__(self, num_pages: int, page_size: int, rows: int, max_seq_len: int) -> None:
        self.num_pages, self.device = num_pages, torch.device("cpu")
        self.max_seq_len = max_seq_len
        self.page_table = make_page_table(rows, max_seq_len, num_pages, page_size, self.device)
        self.graph_runner = GraphRunner((), make_dummy_req(rows))
        self.attn_backend: Any = self
        self.sampler = Sampler(self.device, 1 << 20)
        self.stream = HostStream()
        self.ctx = Context(page_size)
        self.hooks = self.ctx.hooks

    def prepare_metadata(self, batch: Batch) -> None:
        pass

    def forward_batch(self, batch: Batch, args: BatchSamplingArgs) -> ForwardOutput:
        for req in batch.reqs:
            req.complete_one()
        tokens = torch.ones(batch.size, dtype=torch.int32)
        return ForwardOutput(tokens, tokens, _Done())


def scheduler_of(
    kind: type[Scheduler], requests: int, num_pages: int, page_size: int, steps: int
) -> Scheduler:
    """A scheduler whose ``requests`` have been prefilled and have ``steps`` tokens to go."""
    engine = NoModel(num_pages, page_size, requests, 64 + steps)
    config = SchedulerConfig(
        page_size=page_size,
        num_page_override=num_pages,
        max_running_req=requests,
        max_extend_tokens=1 << 20,
        cache_type="radix",
    )
    scheduler = kind(config, engine, MessageQueue())
    for uid in range(requests):
        ids = torch.arange(uid * 32, uid * 32 + 32, dtype=torch.int32)
        params = SamplingParams(max_tokens=steps, ignore_eos=True)
        scheduler.io.send(UserMsg(uid, ids, params))  # type: ignore[attr-defined]
    scheduler.normal_loop()
    return scheduler


def _seconds_per_turn(turn: Callable[[], None], turns: int) -> float:
    """As timeit measures: without the garbage collector, which comes when it likes.

    NOTE: with it, a queue of a million pages makes each full collection longer, some milliseconds.
    """
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(turns):
            turn()
        return (time.perf_counter() - start) / turns
    finally:
        gc.enable()


def decode_step(
    kind: type[Scheduler], requests: int, num_pages: int, page_size: int = 1, steps: int = 30
) -> Callable[[], float]:
    """Seconds of host time of one decode step, mean over ``steps`` - 2 steps of a fresh run."""

    def run() -> float:
        scheduler = scheduler_of(kind, requests, num_pages, page_size, steps)
        return _seconds_per_turn(scheduler.normal_loop, steps - 2)

    return run


def published_step(
    published: type[Any], requests: int, num_pages: int, page_size: int = 1, steps: int = 30
) -> Callable[[], float]:
    """The same for mini-sglang's own loop and managers, without what watches them here.

    ``published``: a ``ReferenceScheduler`` class (``teaching/reference.py``). Its replies go
    nowhere; pinned memory and the compiled key compare are replaced, as always on a CPU.
    """

    def run() -> float:
        scheduler: Any = scheduler_of(published, requests, num_pages, page_size, steps)
        inner = scheduler.inner
        managers = (scheduler.table_manager, scheduler.cache_manager)
        for owner in (inner, *managers, scheduler.cache_manager.prefix_cache):
            for name in [n for n in vars(owner) if callable(getattr(type(owner), n, None))]:
                delattr(owner, name)  # the method of the class is there again
        inner.receive_msg = lambda blocking: []
        inner.send_result = lambda replies: None
        with scheduler._running():
            return _seconds_per_turn(inner.normal_loop, steps - 2)

    return run
