"""A request's progress, a batch, and the objects of its engine (mini-sglang: core.py)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral, Real
from threading import RLock
from typing import TYPE_CHECKING, Literal

import torch

from .distributed import DistributedInfo, use_tp_info
from .distributed.info import SINGLE
from .hooks import Hooks

if TYPE_CHECKING:
    from .attention.base import BaseAttnBackend, BaseAttnMetadata
    from .kvcache.base import BaseCacheHandle, BaseKVCachePool


@dataclass
class SamplingParams:
    """How the next token of a request is chosen. The engine never changes one.

    temperature 0 takes the likeliest token; top_k -1 and top_p 1.0 keep all tokens. ``max_tokens``
    is clipped, on a copy, to what the context has room for. A ``seed`` gives the request a random
    stream of its own, whatever other requests share its batches.
    """

    temperature: float = 0.0
    top_k: int = -1
    top_p: float = 1.0
    ignore_eos: bool = False
    max_tokens: int = 1024
    seed: int | None = None

    @property
    def is_greedy(self) -> bool:
        return self.temperature <= 0.0 or self.top_k == 1

    def validate(self) -> None:
        """Raises ValueError naming the first value that is not allowed."""
        for name, kind in _NUMBERS.items():
            value: object = getattr(self, name)
            if name == "seed" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, kind):
                what = "a number" if kind is Real else "a whole number"
                raise ValueError(f"{name} {value!r} is not allowed: {what} is needed.")
        if not 0.0 <= self.temperature <= sys.float_info.max:
            raise ValueError(f"temperature {self.temperature!r:.60} is not allowed: 0 or more.")
        if self.top_k != -1 and self.top_k < 1:
            raise ValueError(f"top_k {self.top_k} is not allowed: 1 or more, or -1 for all.")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p {self.top_p} is not allowed: above 0, at most 1.")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens {self.max_tokens} is not allowed: 1 or more.")
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise ValueError(f"seed {self.seed!r} is not allowed: 0 or more, below 2**63.")


_NUMBERS = {"temperature": Real, "top_p": Real} | dict.fromkeys(
    ("top_k", "max_tokens", "seed"), Integral
)


class Req:
    """One admitted request and how far it has come. Requests compare by identity.

    ::

        0            cached_len          device_len              max_device_len
        |-- K/V exist --|-- this iteration --|-- not yet sampled --|

    ``input_ids``: (n,) int32 on the CPU, prompt and shown tokens. ``table_idx``: its row in
    ``page_table`` and ``token_pool``. ``output_len``: tokens it may still produce.

    Raises:
        ValueError: ids not on the CPU, or not 0 <= cached_len < device_len <= max_device_len.
    """

    def __init__(
        self,
        input_ids: torch.Tensor,
        table_idx: int,
        cached_len: int,
        output_len: int,
        uid: int,
        sampling_params: SamplingParams,
        cache_handle: BaseCacheHandle,
    ) -> None:
        self.input_ids = input_ids
        self.table_idx = table_idx
        self.cached_len = cached_len
        self.output_len = output_len
        self.uid = uid
        self.sampling_params = sampling_params
        self.cache_handle = cache_handle
        if not self.input_ids.is_cpu:
            raise ValueError(
                f"input_ids lie on {self.input_ids.device}; a request keeps them on the CPU."
            )
        self.device_len = len(self.input_ids)
        self.max_device_len = self.device_len + self.output_len
        if not 0 <= self.cached_len < self.device_len <= self.max_device_len:
            raise ValueError(
                f"request {self.uid}: cached_len {self.cached_len}, device_len {self.device_len},"
                f" max_device_len {self.max_device_len}: 0 <= cached < device <= max must hold."
            )

    @property
    def input_ids(self) -> torch.Tensor:
        """NOTE: a step appends to every request, and few look: the tensor is made when one does."""
        if self._appended:
            new = torch.tensor(self._appended, dtype=self._ids.dtype)
            self.input_ids = torch.cat([self._ids, new])
        return self._ids

    @input_ids.setter
    def input_ids(self, ids: torch.Tensor) -> None:
        self._ids = ids
        self._ids_len = len(ids)
        self._appended: list[int] = []

    @property
    def host_len(self) -> int:
        """``len(input_ids)``: the prompt, and the tokens that the host was told."""
        return self._ids_len + len(self._appended)

    @property
    def remain_len(self) -> int:
        return self.max_device_len - self.device_len

    @property
    def extend_len(self) -> int:
        return self.device_len - self.cached_len

    def complete_one(self) -> None:
        """This iteration is launched: its tokens have K/V, and the sampled one comes next."""
        self.cached_len = self.device_len
        self.device_len += 1

    def append_host(self, next_token: torch.Tensor | int) -> None:
        """Add the sampled token, (1,) or a number, to the host's ids."""
        self._appended.append(int(next_token))

    @property
    def can_decode(self) -> bool:
        """Whether another step follows. Under overlap this is a step ahead of what is shown."""
        return self.remain_len > 0

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(uid={self.uid}, table_idx={self.table_idx},"
            f" cached_len={self.cached_len}, device_len={self.device_len},"
            f" max_device_len={self.max_device_len})"
        )


@dataclass(eq=False)
class Batch:
    """The requests of one step. T = sum of ``extend_len`` over ``padded_reqs``.

    The scheduler sets ``padded_reqs`` (``reqs`` plus dummies), ``positions``, ``out_loc`` and
    ``input_ids``, each (T,) int32 on the device; the attention backend sets ``attn_metadata``.
    """

    reqs: list[Req]
    phase: Literal["prefill", "decode"]
    input_ids: torch.Tensor = field(init=False, repr=False)
    positions: torch.Tensor = field(init=False, repr=False)
    out_loc: torch.Tensor = field(init=False, repr=False)
    padded_reqs: list[Req] = field(init=False, repr=False)
    attn_metadata: BaseAttnMetadata = field(init=False, repr=False)
    batch_id: int = field(default=-1, init=False)  # counted by the scheduler

    @property
    def is_prefill(self) -> bool:
        return self.phase == "prefill"

    @property
    def is_decode(self) -> bool:
        return self.phase == "decode"

    @property
    def size(self) -> int:
        return len(self.reqs)

    @property
    def padded_size(self) -> int:
        return len(self.padded_reqs)


@dataclass
class Context:
    """What the layers of one engine find without being handed it.

    ``page_table`` holds raw token slots, whatever the page size: (rows, W) int32.
    """

    page_size: int
    page_table: torch.Tensor = field(init=False)
    attn_backend: BaseAttnBackend = field(init=False)
    kv_cache: BaseKVCachePool = field(init=False)
    tp_info: DistributedInfo = SINGLE
    hooks: Hooks = field(default_factory=Hooks)
    _batch: Batch | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.page_size, int) or self.page_size < 1:
            raise ValueError(f"page_size {self.page_size!r} is not allowed: 1 or more.")

    @property
    def batch(self) -> Batch:
        if self._batch is None:
            raise RuntimeError("no batch is being run in this context.")
        return self._batch

    @contextmanager
    def forward_batch(self, batch: Batch) -> Iterator[None]:
        """``batch`` is what the layers see inside the block."""
        if self._batch is not None:
            raise RuntimeError("a batch is being run in this context already.")
        self._batch = batch
        try:
            yield
        finally:
            self._batch = None


_GLOBAL_CTX: Context | None = None
_CTX_LOCK = RLock()
"""Held while a context is current: engines in several threads take their steps in turn."""


def set_global_ctx(ctx: Context) -> None:
    """Make ``ctx`` current for the whole process, as code written for one engine does.

    Raises:
        RuntimeError: another one is current. Engines of this package need no call: each makes its
            own current (``use_ctx``) while it is built and while it runs a step.
    """
    global _GLOBAL_CTX
    if _GLOBAL_CTX is not None and _GLOBAL_CTX is not ctx:
        raise RuntimeError(
            "another context is current in this process; wrap your code in use_ctx(ctx)."
        )
    _GLOBAL_CTX = ctx


def get_global_ctx() -> Context:
    """The current context.

    Raises:
        RuntimeError: none is current.
    """
    if _GLOBAL_CTX is None:
        raise RuntimeError("no context is current; wrap the call in use_ctx(Context(page_size)).")
    return _GLOBAL_CTX


@contextmanager
def use_ctx(ctx: Context) -> Iterator[Context]:
    """Make ``ctx`` and its rank current inside the block, then restore the former ones."""
    global _GLOBAL_CTX
    with _CTX_LOCK:
        former, _GLOBAL_CTX = _GLOBAL_CTX, ctx
        try:
            with use_tp_info(ctx.tp_info):
                yield ctx
        finally:
            _GLOBAL_CTX = former
