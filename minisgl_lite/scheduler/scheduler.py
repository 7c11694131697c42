"""One turn: take messages, choose a batch, prepare its places, launch it, hand out results.

mini-sglang: scheduler/scheduler.py. The managers decide; this file keeps their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import torch

from ..core import Batch, Req, SamplingParams
from ..engine.stream import HostStream, Stream
from ..hooks import Hooks
from ..message import AbortBackendMsg, BackendMsg, DetokenizeMsg, UserMsg
from .cache import CacheManager
from .config import SchedulerConfig
from .decode import DecodeManager
from .mapping import Indice2D, make_input_tuple, make_positions, make_write_tuple
from .prefill import ChunkedReq, PrefillManager
from .table import TableManager

if TYPE_CHECKING:
    from ..engine.engine import ForwardOutput
    from ..engine.sample import BatchSamplingArgs


class SchedulerIO(Protocol):
    """Where messages come from and results go."""

    def receive_msg(self, blocking: bool) -> Iterable[BackendMsg]:
        """New messages in order of arrival; with ``blocking``, waits for the first."""

    def send_result(self, reply: list[DetokenizeMsg]) -> None: ...


class ForwardInput(NamedTuple):
    """A prepared batch; kept until its results are processed, so that no tensor is freed early."""

    batch: Batch
    sample_args: BatchSamplingArgs
    input_tuple: Indice2D
    write_tuple: Indice2D


ForwardData: TypeAlias = "tuple[ForwardInput, ForwardOutput]"
"""A launched batch and what the device makes of it: what one turn of the overlap loop hands to the
next."""


class Managers(NamedTuple):
    """The classes a scheduler builds its managers from; others may be handed in from outside."""

    cache: type[CacheManager] = CacheManager
    table: type[TableManager] = TableManager
    decode: type[DecodeManager] = DecodeManager
    prefill: type[PrefillManager] = PrefillManager


class Scheduler:
    """Runs requests on ``engine``, one batch a turn, until all are answered.

    ``engine`` needs ``forward_batch``, ``page_table``, ``num_pages``, ``max_seq_len``,
    ``graph_runner``, ``attn_backend`` and ``sampler``; a made-up one will do (``ScriptedEngine``).
    Every request gets its tokens or one error; an aborted one gets nothing more.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        engine: Any,
        io: SchedulerIO,
        *,
        managers: Managers = Managers(),  # noqa: B008 - an immutable tuple of classes
    ) -> None:
        config.validate()
        self.engine = engine
        self.io = io
        self._check_engine(config)
        self.device: torch.device = engine.page_table.device
        self.hooks: Hooks = getattr(engine, "hooks", None) or Hooks()
        self._stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        self.engine_stream: Stream = getattr(engine, "stream", None) or HostStream()

        self.table_manager = managers.table(config.max_running_req, engine.page_table)
        self.table_manager.stream = self.engine_stream
        self.cache_manager = managers.cache(
            engine.num_pages, config.page_size, engine.page_table, config.cache_type
        )
        self.decode_manager = managers.decode(config.page_size)
        self.prefill_manager = managers.prefill(
            self.cache_manager, self.table_manager, self.decode_manager
        )
        for manager in (self.table_manager, self.cache_manager, self.prefill_manager):
            manager.hooks = self.hooks

        eos = config.eos_token_id
        self.eos_token_ids = frozenset([int(eos)] if isinstance(eos, int | Integral) else eos or ())
        self.token_pool = self.table_manager.token_pool
        self.prefill_budget = config.max_extend_tokens
        self.finished_reqs: set[Req] = set()
        self.aborted_reqs: set[Req] = set()
        self.turn = 0
        self._in_turn = False
        self._launched: list[Batch] = []
        self._ongoing: ForwardData | None = None
        self._num_batches = 0
        if self.device.type == "cuda":  # the tables were filled in neither stream of the loop
            torch.cuda.synchronize(self.device)

    def _check_engine(self, config: SchedulerConfig) -> None:
        """Settings that an engine was not built for would show as a wrong slot much later."""
        rows = self.engine.page_table.shape[0] - 1
        if config.max_running_req > rows:
            raise ValueError(
                f"max_running_req {config.max_running_req} is not allowed: the engine's page table"
                f" has {rows} rows for requests."
            )
        built_for = getattr(getattr(self.engine, "ctx", None), "page_size", config.page_size)
        if config.page_size != built_for:
            raise ValueError(
                f"page_size {config.page_size} is not allowed: the engine has pages of {built_for}."
            )

    @property
    def stream(self) -> torch.cuda.Stream | None:
        """The host's own CUDA stream, apart from the engine's; None on a CPU."""
        return self._stream

    @property
    def has_work(self) -> bool:
        """Whether a turn would do something even if no message came."""
        return bool(self.prefill_manager.runnable or self.decode_manager.runnable or self._launched)

    def live_reqs(self) -> list[Req]:
        """All that hold a row: running, pending chunks, and those of a launched batch not released.

        An aborted request lives until its step is done.
        """
        live = list(self.decode_manager.running_reqs)
        live += [p.chunked_req for p in self.prefill_manager.pending_list if p.chunked_req]
        live += [req for batch in self._launched for req in batch.reqs]
        return [req for req in dict.fromkeys(live) if req not in self.finished_reqs]

    def normal_loop(self) -> None:
        """One turn: receive, schedule, launch, wait, process."""
        with self._one_turn():
            self._receive(blocking=not self.has_work)
            self._process_last_data(self._ongoing)  # NOTE: what an overlapped turn left behind
            self._ongoing = None
            self._process_last_data(self._launch_next())

    def overlap_loop(self, last_data: ForwardData | None) -> ForwardData | None:
        """One turn: receive, schedule and launch batch i+1, then process batch i (``last_data``).

        Returns the data of batch i+1, to be handed to the next turn.
        """
        last_data = self._ongoing or last_data  # NOTE: a turn that raised returned nothing
        if last_data is not None and last_data[0].batch not in self._launched:
            last_data = None  # processed by the turn that raised
        with self._one_turn():
            self._receive(blocking=not self.has_work)
            self._ongoing = self._launch_next()
            self._process_last_data(last_data)
        return self._ongoing

    def run_when_idle(self) -> None:
        """Nothing lives: every page must be free or in the prefix cache."""
        self.cache_manager.check_integrity()

    @contextmanager
    def _one_turn(self) -> Iterator[None]:
        if self._in_turn:
            raise RuntimeError("a turn of this scheduler is running; the next waits for its end.")
        self._in_turn = True
        self.turn += 1
        if self.hooks.active:
            self.hooks.emit("on_turn_begin", self.turn)
        try:
            with self._host_stream():
                yield
        finally:
            if self.hooks.active:
                self.hooks.emit("on_turn_end", self.turn)
            self._in_turn = False
        self.hooks.raise_pending()

    def _host_stream(self) -> AbstractContextManager[Any]:
        return torch.cuda.stream(self._stream) if self._stream is not None else nullcontext()

    # ---------------------------------------------------------------- messages

    def _receive(self, *, blocking: bool) -> None:
        """NOTE: what is no message at all ends the turn, but only after all others are taken."""
        unknown: TypeError | None = None
        for msg in self.io.receive_msg(blocking=blocking):
            try:
                self._process_one_msg(msg)
            except TypeError as error:
                unknown = unknown or error
        if unknown is not None:
            raise unknown

    def _process_one_msg(self, msg: BackendMsg) -> None:
        if isinstance(msg, UserMsg):
            self._add_request(msg)
        elif isinstance(msg, AbortBackendMsg):
            self._abort_request(msg.uid)
        else:
            raise TypeError(f"unknown message {type(msg).__name__}: UserMsg or AbortBackendMsg.")

    def _add_request(self, msg: UserMsg) -> None:
        try:
            _check_types(msg)
            room = self._check_request(msg)
        except ValueError as error:
            reason = f"error: {error}"
            if self.hooks.active:
                self.hooks.emit("on_reject", msg.uid, reason)
            self.io.send_result([DetokenizeMsg(msg.uid, -1, True, reason)])
            return
        msg = replace(msg, input_ids=msg.input_ids.to(torch.int32))
        params = msg.sampling_params
        if params.max_tokens > room:  # NOTE: on a copy; the caller may share one among its prompts
            msg = replace(msg, sampling_params=replace(params, max_tokens=room))
        self.prefill_manager.add_one_req(msg)

    def _check_request(self, msg: UserMsg) -> int:
        """The number of tokens there is room for; raises ValueError for what can never run."""
        input_len = len(msg.input_ids)
        if input_len == 0:
            raise ValueError("the prompt is empty; at least 1 token is needed.")
        msg.sampling_params.validate()
        room = self.engine.max_seq_len - input_len
        if room < 1:
            raise ValueError(
                f"the prompt has {input_len} tokens; at most {self.engine.max_seq_len - 1} fit"
                f" (max_seq_len {self.engine.max_seq_len}, and one token of output)."
            )
        vocab_size = getattr(self.engine.sampler, "vocab_size", None)
        if vocab_size is not None:
            low, high = (int(x) for x in msg.input_ids.long().aminmax())
            if low < 0 or high >= vocab_size:
                bad = low if low < 0 else high
                raise ValueError(f"token id {bad} is outside the vocabulary [0, {vocab_size}).")
        if any(msg.uid == uid for uid in self._live_uids()):
            raise ValueError(f"uid {msg.uid} is in use by a request that still runs.")
        return room

    def _live_uids(self) -> Iterator[int]:
        yield from (pending.uid for pending in self.prefill_manager.pending_list)
        yield from (req.uid for req in self.live_reqs())

    def _abort_request(self, uid: int) -> None:
        """Cancel ``uid``; one whose step is on the device is released when that step is done."""
        waiting = any(pending.uid == uid for pending in self.prefill_manager.pending_list)
        launched = next((req for req in self._launched_reqs() if req.uid == uid), None)
        held = self.prefill_manager.abort_req(uid) or self.decode_manager.abort_req(uid)
        if not waiting and held is None and launched is None:
            return
        if self.hooks.active:
            self.hooks.emit("on_abort", uid, launched or held)
        if launched is not None:
            self.aborted_reqs.add(launched)
        elif held is not None:
            self._free_req_resources(held)

    def _launched_reqs(self) -> Iterator[Req]:
        """Requests on the device that are neither released nor aborted already."""
        for batch in self._launched:
            for req in batch.reqs:
                if req not in self.finished_reqs and req not in self.aborted_reqs:
                    yield req

    # ---------------------------------------------------------------- batches

    def _schedule_next_batch(self) -> ForwardInput | None:
        """A prefill batch if one can be made, else all running requests; places prepared."""
        batch = (
            self.prefill_manager.schedule_next_batch(self.prefill_budget)
            or self.decode_manager.schedule_next_batch()
        )
        if batch is None:
            return None
        with self._recover(batch):
            return self._prepare_batch(batch)

    def _prepare_batch(self, batch: Batch) -> ForwardInput:
        """Places for this iteration's tokens.

        NOTE: the order matters. ``out_loc`` looked up before the pages are allocated would read
        what the rows held before: zeros, or slots of a former owner.
        """
        batch.batch_id, self._num_batches = self._num_batches, self._num_batches + 1
        self.engine.graph_runner.pad_batch(batch)
        self.cache_manager.allocate_paged(batch.reqs)
        batch.positions = make_positions(batch, self.device)
        input_mapping = make_input_tuple(batch, self.device)
        write_mapping = make_write_tuple(batch, self.device)
        batch.out_loc = self.engine.page_table[input_mapping]
        self.engine.attn_backend.prepare_metadata(batch)
        forward_input = ForwardInput(
            batch=batch,
            sample_args=self.engine.sampler.prepare(batch),
            input_tuple=input_mapping,
            write_tuple=write_mapping,
        )
        if self.hooks.active:
            self.hooks.emit("on_prepare", forward_input)
        return forward_input

    def _launch_next(self) -> ForwardData | None:
        forward_input = self._schedule_next_batch()
        if forward_input is None:
            return None
        with self._recover(forward_input.batch):
            return forward_input, self._forward(forward_input)

    def _forward(self, forward_input: ForwardInput) -> ForwardOutput:
        """Hand the batch to the device: gather ids, run, keep what it samples for the next step."""
        batch, sample_args, input_mapping, write_mapping = forward_input
        if self.hooks.active:
            self.hooks.emit("on_launch", batch, batch.batch_id)
        self.engine_stream.wait_stream(self._stream)
        self.engine_stream.issue(_gather_ids(batch, self.token_pool, input_mapping))
        output: ForwardOutput = self.engine.forward_batch(batch, sample_args)
        self.engine_stream.issue(
            _keep_tokens(self.token_pool, write_mapping, output.next_tokens_gpu)
        )
        self.decode_manager.filter_reqs(batch.reqs)
        self._launched.append(batch)
        self.cache_manager.settle()
        if self.hooks.active:
            self.hooks.emit("on_forward_done", batch, batch.batch_id)
        return output

    @contextmanager
    def _recover(self, batch: Batch) -> Iterator[None]:
        """If the step fails, give back its pages and end its requests, so that others can go on."""
        lengths = [(req, req.cached_len, req.device_len) for req in batch.reqs]
        try:
            yield
        except BaseException as error:
            self.cache_manager.take_back()
            reason = f"error: the step failed: {type(error).__name__}: {error}"
            ended = self.finished_reqs | self.aborted_reqs
            replies = [DetokenizeMsg(r.uid, -1, True, reason) for r in batch.reqs if r not in ended]
            for reply in replies if self.hooks.active else ():
                self.hooks.emit("on_reject", reply.uid, reason)
            for req, cached_len, device_len in lengths:
                req.cached_len, req.device_len = cached_len, device_len
                self._abandon(req)
            self.io.send_result(replies)
            raise

    def _abandon(self, req: Req) -> None:
        self.prefill_manager.abort_req(req.uid)
        self.decode_manager.remove_req(req)
        if req in self.finished_reqs or req in self.aborted_reqs:
            return
        on_device = next((r for r in self._launched_reqs() if r.uid == req.uid), None)
        if on_device is not None:  # an earlier step of it, maybe a chunk, still runs
            self.aborted_reqs.add(on_device)
        else:
            self._free_req_resources(req)

    # ---------------------------------------------------------------- results

    def _process_last_data(self, last_data: ForwardData | None) -> None:
        """Wait for a launched batch, show its tokens, release what ended."""
        if last_data is None:
            return
        batch, output = last_data[0].batch, last_data[1]
        output.copy_done_event.synchronize()
        next_tokens: list[int] = output.next_tokens_cpu.tolist()
        if self.hooks.active:
            self.hooks.emit("on_result", batch, batch.batch_id, next_tokens)
        self._launched.remove(batch)
        replies: list[DetokenizeMsg] = []
        finished: set[Req] = set()
        with self.cache_manager.lazy_free_region():
            for req, next_token in zip(batch.reqs, next_tokens, strict=False):
                reply = self._take_result(req, next_token, batch)
                if reply is not None:
                    replies.append(reply)
                    if reply.finished:
                        finished.add(req)
        self.finished_reqs = finished
        if replies:
            self.io.send_result(replies)

    def _take_result(self, req: Req, next_token: int, batch: Batch) -> DetokenizeMsg | None:
        """What a request of a finished step is told; None: aborted, released before, a chunk."""
        if req in self.aborted_reqs:
            self.aborted_reqs.remove(req)
            self._free_req_resources(req)
            return None
        if isinstance(req, ChunkedReq) or req in self.finished_reqs:
            return None
        return self._show_token(req, next_token, batch)

    def _show_token(self, req: Req, next_token: int, batch: Batch) -> DetokenizeMsg:
        req.append_host(next_token)
        reason = self._finish_reason(req, next_token)
        if self.hooks.active:
            self.hooks.emit("on_token", req, next_token, reason is not None, reason)
        if reason is not None:
            self.decode_manager.remove_req(req)
            self._free_req_resources(req)
        elif batch.is_prefill:
            self.cache_manager.cache_req(req, finished=False)
        return DetokenizeMsg(req.uid, next_token, reason is not None, reason)

    def _finish_reason(self, req: Req, next_token: int) -> str | None:
        """NOTE: asked of the host's ids; under overlap ``can_decode`` is a step ahead already."""
        if next_token in self.eos_token_ids and not req.sampling_params.ignore_eos:
            return "stop"
        return "length" if req.host_len == req.max_device_len else None

    def _free_req_resources(self, req: Req) -> None:
        self.table_manager.free(req.table_idx)
        self.cache_manager.cache_req(req, finished=True)


def _check_types(msg: UserMsg) -> None:
    """Raises ValueError for what would be an error of its whole batch later."""
    uid, ids, params = msg.uid, msg.input_ids, msg.sampling_params
    if not isinstance(uid, int) or isinstance(uid, bool) or uid < 0:
        raise ValueError(f"uid {uid!r:.60} is not allowed: a whole number of 0 or more.")
    if not isinstance(params, SamplingParams):
        raise ValueError(f"sampling_params {params!r:.60} is not allowed: a SamplingParams.")
    if not isinstance(ids, torch.Tensor):
        raise ValueError(f"input_ids {ids!r:.60} is not allowed: a tensor of token ids.")
    whole = not ids.is_floating_point() and not ids.is_complex() and ids.dtype != torch.bool
    if ids.dim() != 1 or not whole or not ids.is_cpu:
        raise ValueError(
            f"input_ids of shape {tuple(ids.shape)}, {ids.dtype}, on {ids.device} are not allowed:"
            " (n,) whole numbers on the CPU are."
        )


def _gather_ids(batch: Batch, token_pool: torch.Tensor, mapping: Indice2D) -> Callable[[], None]:
    def gather() -> None:
        batch.input_ids = token_pool[mapping]  # (T,)

    return gather


def _keep_tokens(
    token_pool: torch.Tensor, mapping: Indice2D, next_tokens: torch.Tensor
) -> Callable[[], None]:
    def keep() -> None:
        token_pool[mapping] = next_tokens[: len(mapping[0])]

    return keep
