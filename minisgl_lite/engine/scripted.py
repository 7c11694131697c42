"""A made-up engine: the real managers around a model that says what it is told to.

It drives the scheduler in tests, exercises and toy pages, on a CPU, with no weights. Its pool is
real, though tiny: it stores K/V that depend on the token and its whole prefix, and reads the
history back through the page table, so a wrong slot is not only wrong but visible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch

from ..core import Batch, Context, Req, use_ctx
from ..hooks import Hooks
from ..kvcache import MHAKVCache
from ..scheduler.io import MessageQueue
from .engine import ForwardOutput
from .graph import GraphRunner, make_dummy_req
from .sample import BatchSamplingArgs, Sampler
from .tables import make_page_table

Script: TypeAlias = "int | Sequence[int] | Mapping[int, Sequence[int]] | Callable[[Req, int], int]"
"""What to answer: always one token; the n-th for every request's n-th output; the same by uid; or a
function of the request and the number of tokens it has K/V for after the step. A sequence that runs
out repeats its last token."""


class LateStream:
    """A device that does nothing until the host waits for it, and then no more than it must."""

    def __init__(self) -> None:
        self._work: deque[Callable[[], None]] = deque()

    def issue(self, work: Callable[[], None]) -> None:
        self._work.append(work)

    def wait_stream(self, other: object) -> None:
        pass

    def event(self) -> LateEvent:
        """Marks what is issued so far."""
        event = LateEvent(self)
        self._work.append(event.mark)
        return event

    def run_until(self, event: LateEvent) -> None:
        while not event.reached:
            self._work.popleft()()


class LateEvent:
    """Reached when all work issued before it has run."""

    def __init__(self, stream: LateStream) -> None:
        self._stream = stream
        self.reached = False

    def mark(self) -> None:
        self.reached = True

    def synchronize(self) -> None:
        self._stream.run_until(self)


class NowStream:
    """A device that runs each piece of work at once."""

    def issue(self, work: Callable[[], None]) -> None:
        work()

    def wait_stream(self, other: object) -> None:
        pass

    def event(self) -> NowStream:
        return self

    def synchronize(self) -> None:
        pass


class ScriptedBackend:
    """Stands where an attention backend stands; keeps what a step must read, as values."""

    def __init__(self, page_table: torch.Tensor) -> None:
        self.page_table = page_table

    def prepare_metadata(self, batch: Batch) -> None:
        batch.attn_metadata = [  # type: ignore[assignment]
            self.page_table[req.table_idx, : req.device_len].clone() for req in batch.padded_reqs
        ]


class ScriptedEngine:
    """``num_pages`` pages of ``page_size`` tokens; answers by ``script``, or by what it reads.

    ``script`` None: the next token is a function of the K/V really read, so a request that reads
    a foreign slot says something else than it would alone. ``late``: each step runs only when the
    host waits for its result, the worst that an overlapping scheduler can meet.
    """

    VOCAB = 1 << 20

    def __init__(
        self,
        num_pages: int,
        page_size: int,
        *,
        max_running_req: int = 8,
        max_seq_len: int | None = None,
        script: Script | None = 7,
        late: bool = False,
        graph_bs: Sequence[int] = (),
        vocab_size: int = VOCAB,
        num_layers: int = 2,
    ) -> None:
        self.num_pages = num_pages
        self.device = torch.device("cpu")
        self.max_seq_len = min(max_seq_len or num_pages * page_size, num_pages * page_size)
        self.page_table = make_page_table(
            max_running_req, self.max_seq_len, num_pages, page_size, self.device
        )
        self.script = script
        self.stream: LateStream | NowStream = LateStream() if late else NowStream()
        self.graph_runner = GraphRunner(graph_bs, make_dummy_req(max_running_req))
        self.dummy_req = self.graph_runner.dummy_req
        self.attn_backend: Any = ScriptedBackend(self.page_table)
        self.sampler = Sampler(self.device, vocab_size)
        self.ctx = Context(page_size)
        self.ctx.page_table = self.page_table
        with use_ctx(self.ctx):
            self.kv_cache = self.ctx.kv_cache = MHAKVCache(
                1, num_layers, 1, num_pages + 1, page_size, torch.float64, self.device
            )
        self.kv_cache._kv_buffer.fill_(float("nan"))

    @property
    def hooks(self) -> Hooks:
        return self.ctx.hooks

    def forward_batch(self, batch: Batch, args: BatchSamplingArgs) -> ForwardOutput:
        """As ``Engine.forward_batch``; the step itself runs when the stream lets it."""
        next_tokens = torch.zeros(batch.size, dtype=torch.int32)
        outputs = [(req, req.device_len) for req in batch.reqs]
        self.stream.issue(lambda: self._run(batch, outputs, next_tokens))
        event = self.stream.event()
        for req in batch.reqs:
            req.complete_one()
        return ForwardOutput(next_tokens, next_tokens, event)

    def _run(self, batch: Batch, outputs: list[tuple[Req, int]], next_tokens: torch.Tensor) -> None:
        self._store(batch)
        tables: list[torch.Tensor] = batch.attn_metadata  # type: ignore[assignment]
        for i, (req, device_len) in enumerate(outputs):
            next_tokens[i] = self._answer(req, device_len, tables[i])

    def _store(self, batch: Batch) -> None:
        """K of a token is a hash of its prefix, carried on from the slot before it; V is its id."""
        tables: list[torch.Tensor] = batch.attn_metadata  # type: ignore[assignment]
        ids = batch.input_ids.tolist()
        positions = batch.positions.tolist()
        k_rows = self.kv_cache.k_cache(0).view(-1)
        hashes: list[float] = []
        at = 0
        for table in tables:
            slots = table.tolist()
            n = len(slots) - positions[at]
            before = float(k_rows[slots[positions[at] - 1]]) if positions[at] > 0 else 0.0
            for token in ids[at : at + n]:
                before = (before * 31 + token + 1) % 1_000_003
                hashes.append(before)
            at += n
        k = torch.tensor(hashes, dtype=torch.float64).view(-1, 1, 1)  # (T, 1, 1)
        v = batch.input_ids.to(torch.float64).view(-1, 1, 1)
        with use_ctx(self.ctx):
            for layer_id in range(self.kv_cache.num_layers):
                self.kv_cache.store_kv(k + layer_id, v, batch.out_loc, layer_id)
                if self.hooks.active:
                    self.hooks.emit("on_store", layer_id, batch)
                    self.hooks.emit("on_attend", layer_id, batch)

    def _answer(self, req: Req, device_len: int, table: torch.Tensor) -> int:
        script = self.script
        if script is None:
            return self._read(table)
        if callable(script):
            return script(req, device_len)
        if isinstance(script, int):
            return script
        answers = script[req.uid] if isinstance(script, Mapping) else script
        count = device_len - (req.max_device_len - req.output_len)
        return answers[min(count, len(answers) - 1)]

    def _read(self, table: torch.Tensor) -> int:
        """A token that depends on every K and V of the request's whole context, in both layers."""
        rows = table.long()
        total = 0.0
        for layer_id in range(self.kv_cache.num_layers):
            k = self.kv_cache.k_cache(layer_id).view(-1)[rows]
            v = self.kv_cache.v_cache(layer_id).view(-1)[rows]
            weights = torch.arange(1, len(rows) + 1, dtype=torch.float64)
            total += float(((k + 3 * v) * weights).sum())
        return int(total % 251) if total == total else 251  # NaN: an unwritten slot was read


__all__ = ["LateStream", "MessageQueue", "NowStream", "Script", "ScriptedEngine"]
