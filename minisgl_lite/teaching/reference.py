"""mini-sglang's scheduler itself, unchanged, over a made-up engine on a CPU.

It is turned by hand like this package's own and has the same managers under the same names, so the
two can be held side by side, step for step; its hooks tell a recorder or a sanitizer what it does
(``watch.py``). Its code comes from a clone (``clone.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch

from ..core import SamplingParams
from ..engine.stream import Stream
from ..hooks import Hooks
from ..message import BackendMsg, DetokenizeMsg, UserMsg
from ..scheduler import SchedulerConfig
from ..scheduler.mapping import Indice2D
from ..scheduler.scheduler import SchedulerIO
from .clone import Minisgl
from .watch import Watch


class Clock:
    """The times of one radix cache: 0, 1, 2 … in the order in which they are asked for."""

    def __init__(self) -> None:
        self.now = -1

    def tick(self) -> int:
        self.now += 1
        return self.now


class TokenPool:
    """The token pool as the published loop uses it: in the engine's stream.

    Only its ``_forward`` does; admission writes the tensor itself, in the scheduler's own stream.
    """

    def __init__(self, tensor: torch.Tensor, stream: Stream) -> None:
        self._tensor = tensor
        self._stream = stream

    def __getitem__(self, mapping: Indice2D) -> torch.Tensor:
        ids = torch.zeros(len(mapping[0]), dtype=self._tensor.dtype)

        def gather() -> None:
            ids.copy_(self._tensor[mapping])

        self._stream.issue(gather)
        return ids

    def __setitem__(self, mapping: Indice2D, tokens: torch.Tensor) -> None:
        self._stream.issue(lambda: self._tensor.__setitem__(mapping, tokens))


class ReferenceScheduler:
    """Stands where a ``Scheduler`` of this package stands; ``inner`` is mini-sglang's own.

    ``engine``: a ``ScriptedEngine``, on time or late; it reads only names that both sides have.
    ``io`` and its messages are this package's. Errors of the published code pass
    through as they are; ``DetokenizeMsg.reason`` is always None, since it gives none.

    Raises:
        ValueError: more than one end-of-sequence id; the published scheduler knows one.
    """

    def __init__(
        self, minisgl: Minisgl, config: SchedulerConfig, engine: Any, io: SchedulerIO
    ) -> None:
        self.minisgl = minisgl
        self.engine = engine
        self.io = io
        self.hooks: Hooks = engine.hooks
        self.turn = 0
        self.clock = Clock()
        self.launched: list[Any] = []
        self._nodes = 0
        self._params: dict[int, tuple[SamplingParams, Any]] = {}
        self.inner = minisgl.scheduler.Scheduler.__new__(minisgl.scheduler.Scheduler)
        with self._running(), minisgl.current(config.page_size):
            self._build(config)
        self._watch = Watch(self)
        self._adder = self._watch.adder()

    def _build(self, config: SchedulerConfig) -> None:
        """What the published constructor sets up, without its CUDA engine and streams."""
        inner, published = self.inner, self.minisgl.scheduler
        page_table = self.engine.page_table
        inner.engine = self.engine
        inner.device = page_table.device
        inner.stream, inner.engine_stream_ctx = None, nullcontext()
        inner.table_manager = published.TableManager(config.max_running_req, page_table)
        inner.cache_manager = published.CacheManager(
            self.engine.num_pages, config.page_size, page_table, config.cache_type
        )
        inner.decode_manager = published.DecodeManager(config.page_size)
        inner.prefill_manager = published.PrefillManager(
            inner.cache_manager, inner.table_manager, inner.decode_manager
        )
        inner.finished_reqs = set()
        inner.tokenizer = None
        inner.eos_token_id = _only_eos(config)
        inner.token_pool = TokenPool(inner.table_manager.token_pool, self.engine.stream)
        inner.prefill_budget = config.max_extend_tokens
        inner.receive_msg, inner.send_result = self._receive, self._send

    @property
    def table_manager(self) -> Any:
        return self.inner.table_manager

    @property
    def cache_manager(self) -> Any:
        return self.inner.cache_manager

    @property
    def decode_manager(self) -> Any:
        return self.inner.decode_manager

    @property
    def prefill_manager(self) -> Any:
        return self.inner.prefill_manager

    @property
    def device(self) -> torch.device:
        device: torch.device = self.inner.device
        return device

    @property
    def eos_token_ids(self) -> frozenset[int]:
        eos = self.inner.eos_token_id
        return frozenset() if eos < 0 else frozenset([eos])

    @property
    def prefill_budget(self) -> int:
        budget: int = self.inner.prefill_budget
        return budget

    @property
    def _launched(self) -> list[Any]:
        return self.launched

    @property
    def has_work(self) -> bool:
        """Whether a turn would do something even if no message came."""
        return bool(self.prefill_manager.runnable or self.decode_manager.runnable or self.launched)

    def live_reqs(self) -> list[Any]:
        """Running requests, pending chunks, and those of a launched batch not released before."""
        live = list(self.decode_manager.running_reqs)
        live += [p.chunked_req for p in self.prefill_manager.pending_list if p.chunked_req]
        live += [req for batch in self.launched for req in batch.reqs]
        return [req for req in dict.fromkeys(live) if req not in self.inner.finished_reqs]

    def normal_loop(self) -> None:
        """One turn of the published plain loop."""
        with self._one_turn():
            self.inner.normal_loop()

    def overlap_loop(self, last_data: Any) -> Any:
        """One turn of the published overlapped loop; takes and returns its own data."""
        with self._one_turn():
            data = self.inner.overlap_loop(last_data)
        return data

    def run_when_idle(self) -> None:
        """What the published scheduler does when it waits: its own integrity check."""
        self.cache_manager.check_integrity()

    @contextmanager
    def _one_turn(self) -> Iterator[None]:
        self.turn += 1
        self._watch.tell("on_turn_begin", self.turn)
        try:
            with self._running(), patch.object(self.minisgl.prefill, "PrefillAdder", self._adder):
                yield
        finally:
            self._watch.tell("on_turn_end", self.turn)
        self.hooks.raise_pending()

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Its clock and the numbers of its nodes are its own, as if it were alone."""
        nodes = self.minisgl.radix_cache.RadixTreeNode
        with self.minisgl.on_a_cpu(self.clock.tick):
            nodes.counter = self._nodes
            try:
                yield
            finally:
                self._nodes = nodes.counter

    def _receive(self, blocking: bool) -> list[Any]:
        return [self._translate(msg) for msg in self.io.receive_msg(blocking=blocking)]

    def _translate(self, msg: BackendMsg) -> Any:
        """The same message as mini-sglang's; params shared by two messages stay shared."""
        message = self.minisgl.message
        if not isinstance(msg, UserMsg):
            return message.AbortBackendMsg(msg.uid)
        given = msg.sampling_params
        if id(given) not in self._params:
            params = self.minisgl.core.SamplingParams(
                given.temperature, given.top_k, given.top_p, given.ignore_eos, given.max_tokens
            )
            self._params[id(given)] = given, params  # NOTE: both kept, so that the id stays taken
        return message.UserMsg(msg.uid, msg.input_ids, self._params[id(given)][1])

    def _send(self, replies: list[Any]) -> None:
        for reply in replies:
            assert self._watch.told.pop((reply.uid, reply.next_token)) == reply.finished
        if replies:
            self.io.send_result(
                [DetokenizeMsg(reply.uid, reply.next_token, reply.finished) for reply in replies]
            )


def _only_eos(config: SchedulerConfig) -> int:
    eos = config.eos_token_id
    ids = [eos] if isinstance(eos, int) else list(eos)
    if len(ids) > 1:
        raise ValueError(f"eos_token_id {ids}: the published scheduler knows one id, or none.")
    return ids[0] if ids else -1
