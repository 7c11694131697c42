"""mini-sglang's scheduler itself, unchanged, over a made-up engine on a CPU.

It is turned by hand like this package's own and has the same managers under the same names, so the
two can be held side by side, step for step; its hooks tell a recorder or a sanitizer what it does
(``watch.py``). Its code comes from a clone (``clone.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar, cast
from unittest.mock import patch

import torch

from ..core import SamplingParams
from ..engine.stream import Stream
from ..hooks import Hooks
from ..message import BackendMsg, DetokenizeMsg, UserMsg
from ..scheduler import SchedulerConfig
from ..scheduler.mapping import Indice2D
from ..scheduler.scheduler import Managers, Scheduler, SchedulerIO
from .clone import Minisgl
from .watch import Watch

S = TypeVar("S", bound=Scheduler)


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


class ReferenceScheduler(Scheduler):
    """Stands where a ``Scheduler`` stands; ``inner`` is mini-sglang's own, with its own managers.

    ``engine``: a ``ScriptedEngine``, on time or late, or a real one on a CPU; they read only names
    that both sides have. ``io`` and its messages are this package's. Errors of the published code
    pass through as they are.

    Raises:
        ValueError: more than one end-of-sequence id, since the published scheduler knows one; or
            other managers.
    """

    minisgl: Minisgl
    """The clone's modules; ``reference_scheduler`` makes the class that has them."""

    def __init__(
        self,
        config: SchedulerConfig,
        engine: Any,
        io: SchedulerIO,
        *,
        managers: Managers = Managers(),  # noqa: B008 - an immutable tuple of classes
    ) -> None:
        if managers != Managers():
            raise ValueError("managers can't be handed in here: mini-sglang brings its own.")
        self.engine, self.io = engine, io
        self.device = engine.page_table.device
        self.hooks: Hooks = engine.hooks
        self.turn = 0
        self.clock = Clock()
        self._stream = None
        self._launched: list[Any] = []
        self._nodes = 0
        self._params: dict[int, tuple[SamplingParams, Any]] = {}
        self.inner = self.minisgl.scheduler.Scheduler.__new__(self.minisgl.scheduler.Scheduler)
        with self._running(), self.minisgl.current(config.page_size):
            self._build(config)
        self.table_manager = self.inner.table_manager
        self.cache_manager = self.inner.cache_manager
        self.decode_manager = self.inner.decode_manager
        self.prefill_manager = self.inner.prefill_manager
        self.token_pool = self.table_manager.token_pool
        self.prefill_budget = config.max_extend_tokens
        self.eos_token_ids = frozenset(_eos_ids(config))
        self._watch = Watch(self)
        self._adder = self._watch.adder()

    def _build(self, config: SchedulerConfig) -> None:
        """What the published constructor sets up, without its CUDA engine and streams."""
        inner, published = self.inner, self.minisgl.scheduler
        page_table = self.engine.page_table
        inner.engine, inner.device = self.engine, self.device
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
        inner.eos_token_id = next(iter(_eos_ids(config)), -1)
        inner.token_pool = TokenPool(inner.table_manager.token_pool, self.engine.stream)
        inner.prefill_budget = config.max_extend_tokens
        inner.receive_msg, inner.send_result = self._messages, self._send

    @property
    def has_work(self) -> bool:
        """Whether a turn would do something even if no message came."""
        return bool(self.prefill_manager.runnable or self.decode_manager.runnable or self._launched)

    def live_reqs(self) -> list[Any]:
        """Running requests, pending chunks, and those of a launched batch not released before."""
        live = list(self.decode_manager.running_reqs)
        live += [p.chunked_req for p in self.prefill_manager.pending_list if p.chunked_req]
        live += [req for batch in self._launched for req in batch.reqs]
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

    def _messages(self, blocking: bool) -> list[Any]:
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
        sent: list[DetokenizeMsg] = []
        for reply in replies:
            reason = self._watch.told.pop((reply.uid, reply.next_token))
            assert (reason is not None) == reply.finished
            sent.append(DetokenizeMsg(reply.uid, reply.next_token, reply.finished, reason))
        if sent:
            self.io.send_result(sent)


def _eos_ids(config: SchedulerConfig) -> list[int]:
    eos = config.eos_token_id
    ids = [eos] if isinstance(eos, int) else list(eos or ())
    if len(ids) > 1:
        raise ValueError(f"eos_token_id {ids}: the published scheduler knows one id, or none.")
    return ids


def reference_scheduler(minisgl: Minisgl, base: type[S] = Scheduler) -> type[S]:  # type: ignore[assignment]
    """``base`` (``Scheduler``, ``Toy`` or ``LLM``) over mini-sglang's own scheduler and managers.

    The counterpart of ``published_scheduler``: what is made of it is used in the same way.
    """
    bases = (ReferenceScheduler,) if base is Scheduler else (base, ReferenceScheduler)
    made: Any = type(f"Reference{base.__name__}", bases, {"minisgl": minisgl})
    return cast("type[S]", made)
