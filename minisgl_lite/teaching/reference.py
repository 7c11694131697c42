"""mini-sglang's scheduler itself, unchanged, over a made-up engine on a CPU.

It is turned by hand like this package's own and has the same managers under the same names, so the
two can be held side by side, step for step. Its code comes from a clone (``clone.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from ..core import SamplingParams
from ..message import BackendMsg, DetokenizeMsg, UserMsg
from ..scheduler import SchedulerConfig
from ..scheduler.scheduler import SchedulerIO
from .clone import Minisgl


class ReferenceScheduler:
    """Stands where a ``Scheduler`` of this package stands; ``inner`` is mini-sglang's own.

    ``engine``: a ``ScriptedEngine`` that runs each step at once; it reads only names that both
    sides have. ``io`` and its messages are this package's. Errors of the published code pass
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
        self.turn = 0
        self._clock = itertools.count()
        self._params: dict[int, tuple[SamplingParams, Any]] = {}
        self.inner = minisgl.scheduler.Scheduler.__new__(minisgl.scheduler.Scheduler)
        with minisgl.on_a_cpu(self._clock.__next__), minisgl.current(config.page_size):
            self._build(config)

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
        inner.token_pool = inner.table_manager.token_pool
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
    def has_work(self) -> bool:
        """Whether something waits or runs; what is on the device only the caller's data tells."""
        return bool(self.prefill_manager.runnable or self.decode_manager.runnable)

    def live_reqs(self) -> list[Any]:
        """Running requests and pending chunks."""
        chunks = (pending.chunked_req for pending in self.prefill_manager.pending_list)
        return [*self.decode_manager.running_reqs, *(req for req in chunks if req is not None)]

    def normal_loop(self) -> None:
        """One turn of the published plain loop."""
        with self._running():
            self.inner.normal_loop()

    def overlap_loop(self, last_data: Any) -> Any:
        """One turn of the published overlapped loop; takes and returns its own data."""
        with self._running():
            return self.inner.overlap_loop(last_data)

    def run_when_idle(self) -> None:
        """What the published scheduler does when it waits: its own integrity check."""
        self.cache_manager.check_integrity()

    @contextmanager
    def _running(self) -> Iterator[None]:
        self.turn += 1
        with self.minisgl.on_a_cpu(self._clock.__next__):
            yield

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
        self.io.send_result(
            [DetokenizeMsg(reply.uid, reply.next_token, reply.finished) for reply in replies]
        )


def _only_eos(config: SchedulerConfig) -> int:
    eos = config.eos_token_id
    ids = [eos] if isinstance(eos, int) else list(eos)
    if len(ids) > 1:
        raise ValueError(f"eos_token_id {ids}: the published scheduler knows one id, or none.")
    return ids[0] if ids else -1
