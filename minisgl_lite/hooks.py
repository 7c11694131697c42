"""Where an observer attaches to a running engine.

The engine calls a hook at each point where something a reader could see has just changed. It knows
nothing of who listens: the recorder and the sanitizer (``minisgl_lite.trace``) and the exercise
harness attach from outside, several at once, and are called by rising ``order``: sanitizer,
harness, recorder. With nobody attached a hook costs one attribute test.

A listener that raises does not break the step: the other listeners and the step itself run to their
end, so that every page keeps one owner; then the turn raises the first error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

    from .core import Batch, Req
    from .kvcache.base import BaseCacheHandle
    from .kvcache.radix_cache import RadixTreeNode
    from .scheduler.scheduler import ForwardInput
    from .scheduler.utils import PendingReq

ORDER_SANITIZER = 10
"""It must see the pool before anybody else says what happened to it."""

ORDER_HARNESS = 20
"""Where ``attach`` puts a listener that names no order."""

ORDER_RECORDER = 30
"""Last, so that what the others found is in its frames."""


class HookError(RuntimeError):
    """An error that a listener found or made; it ends the turn after the step has run whole."""


class Release(NamedTuple):
    """What ``CacheManager.cache_req`` did with the slots of one request, by position.

    ``[0, old_len)`` was matched at admission; ``[old_len, dup_end)`` had been inserted by someone
    else and was freed; ``[dup_end, new_len)`` was newly registered; ``[new_len, end)`` is the tail,
    freed if ``finished``. ``end`` is rounded up to whole pages, as the slots were handed out.
    """

    req: Req
    finished: bool
    old_len: int
    dup_end: int
    new_len: int
    end: int
    slots: list[int]
    """The row's slots ``[0, end)`` as they stood before the release."""
    remapped: list[int] | None
    """The cached slots that ``[old_len, dup_end)`` of the living row points at from now on."""
    handle: BaseCacheHandle
    """The new handle; locked unless ``finished``."""


class Listener:
    """One method per hook; override those you need. Arguments are the engine's own: read only."""

    def on_turn_begin(self, turn: int) -> None:
        """A turn of the loop begins."""

    def on_turn_end(self, turn: int) -> None:
        """The turn is over; frames of this turn are complete."""

    def on_receive(self, pending: PendingReq) -> None:
        """A request passed its checks and waits at the end of the queue."""

    def on_reject(self, uid: int, reason: str) -> None:
        """A request was refused for good, or its step failed; ``reason`` goes to its sender."""

    def on_match(self, pending: PendingReq, handle: BaseCacheHandle) -> None:
        """The prefix cache was asked for the request's prompt."""

    def on_lock(self, handle: BaseCacheHandle) -> None:
        """The path from the handle's node to the root is protected once more."""

    def on_unlock(self, handle: BaseCacheHandle) -> None:
        """The path from the handle's node to the root is protected once less."""

    def on_refuse(
        self, pending: PendingReq, need: int, reserved: int, available: int, why: str
    ) -> None:
        """Not admitted this time, for want of ``why``: "rows" or "pages" (figures in tokens)."""

    def on_admit(self, req: Req, pending: PendingReq, matched_slots: list[int] | None) -> None:
        """Taken into the prefill batch; ``matched_slots`` is None for a continued chunk."""

    def on_walk(self, touched: list[RadixTreeNode], tick: int) -> None:
        """A walk through the tree gave its time to the nodes it matched."""

    def on_node_add(self, node: RadixTreeNode) -> None:
        """A leaf was inserted."""

    def on_node_split(self, upper: RadixTreeNode, lower: RadixTreeNode) -> None:
        """``lower`` kept the rest of its key; the new node ``upper`` took the matched part."""

    def on_node_evict(self, node: RadixTreeNode) -> None:
        """An unlocked leaf left the tree."""

    def on_evict(self, page_starts: list[int]) -> None:
        """Pages of evicted nodes went to the tail of ``free_slots``."""

    def on_allocate(self, spans: list[tuple[Req, int, int]], page_starts: list[int]) -> None:
        """Pages left the head of ``free_slots``; ``(req, first_page, last_page)`` says whose."""

    def on_prepare(self, forward_input: ForwardInput) -> None:
        """Positions, mappings, ``out_loc`` and attention metadata of the batch are set."""

    def on_launch(self, batch: Batch, batch_id: int) -> None:
        """The batch is about to be handed to the device."""

    def on_attention(self, layer_id: int, batch: Batch) -> None:
        """Device: the layer's attention begins; nothing of this step is stored in it yet."""

    def on_store(self, layer_id: int, batch: Batch) -> None:
        """Device: the layer's new K/V were stored at ``batch.out_loc``."""

    def on_attend(self, layer_id: int, batch: Batch) -> None:
        """Device: the layer is about to read the history of every request of the batch."""

    def on_attention_done(
        self, layer_id: int, batch: Batch, q: torch.Tensor, output: torch.Tensor
    ) -> None:
        """Device: the layer's attention is over; ``q`` and ``output`` are (T, H_q, D)."""

    def on_forward_done(self, batch: Batch, batch_id: int) -> None:
        """Launched: lengths are completed, sampled tokens are on their way to ``token_pool``."""

    def on_result(self, batch: Batch, batch_id: int, next_tokens: list[int]) -> None:
        """The host has the sampled tokens, one per request of the batch."""

    def on_token(self, req: Req, token: int, finished: bool, reason: str | None) -> None:
        """A token is shown to the request's sender."""

    def on_release(self, release: Release) -> None:
        """``cache_req`` has registered, pointed anew and returned the request's slots."""

    def on_free(self, page_starts: list[int]) -> None:
        """Pages went to the tail of ``free_slots``."""

    def on_free_slots_set(self, before: int, page_starts: list[int]) -> None:
        """``free_slots``, of ``before`` pages, was set by hand: it is ``page_starts`` now."""

    def on_row(self, table_idx: int, taken: bool) -> None:
        """A table row was taken from, or went back to, the stack of free rows."""

    def on_abort(self, uid: int, req: Req | None) -> None:
        """A request was cancelled; ``req`` is None if it still waited."""


class Hooks:
    """The listeners of one engine, in calling order.

    ``active`` is False while nobody listens; the engine tests it before each ``emit``.
    """

    def __init__(self) -> None:
        self.active = False
        self._attached: list[tuple[int, Listener]] = []
        self._calls: dict[str, list[Callable[..., None]]] = {}
        self._error: BaseException | None = None

    def attach(self, listener: Listener, *, order: int = ORDER_HARNESS) -> None:
        """Call ``listener`` from now on, after those of a lower or the same ``order``."""
        if listener in self.listeners:
            raise ValueError(f"{type(listener).__name__} is attached to this engine already.")
        self._attached.append((order, listener))
        self._attached.sort(key=lambda pair: pair[0])
        self._rebuild()

    def detach(self, listener: Listener) -> None:
        """Stop calling ``listener``; unknown ones are ignored."""
        self._attached = [pair for pair in self._attached if pair[1] is not listener]
        self._rebuild()

    @property
    def listeners(self) -> list[Listener]:
        return [listener for _, listener in self._attached]

    def emit(self, event: str, *args: Any) -> None:
        """Call ``event`` on each listener; the first error is kept for the turn's end."""
        for call in self._calls.get(event, ()):
            try:
                call(*args)
            except BaseException as error:
                self._keep(error, call, event)

    def raise_pending(self) -> None:
        """Raise the error that a listener left during this turn, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _rebuild(self) -> None:
        self.active = bool(self._attached)
        self._calls = {}
        for event in (name for name in vars(Listener) if name.startswith("on_")):
            calls = [
                getattr(listener, event)
                for listener in self.listeners
                if getattr(type(listener), event, None) is not getattr(Listener, event)
                and hasattr(listener, event)
            ]
            if calls:
                self._calls[event] = calls

    def _keep(self, error: BaseException, call: Callable[..., None], event: str) -> None:
        if self._error is not None:
            return
        if isinstance(error, HookError) or not isinstance(error, Exception):
            self._error = error
            return
        owner = type(getattr(call, "__self__", call)).__name__
        self._error = HookError(f"{owner}.{event} raised {type(error).__name__}: {error}")
        self._error.__cause__ = error


class _NobodyListens(Hooks):
    """Shared by all that stand alone, so nothing may be attached to it."""

    def attach(self, listener: Listener, *, order: int = ORDER_HARNESS) -> None:
        raise RuntimeError(
            "this object stands alone and has no listeners; give it hooks of its own first:"
            " its attribute `hooks` takes a Hooks()."
        )


NO_HOOKS: Hooks = _NobodyListens()
"""The hooks of a cache or manager that was made on its own; a scheduler puts its own in."""

__all__ = [
    "NO_HOOKS",
    "ORDER_HARNESS",
    "ORDER_RECORDER",
    "ORDER_SANITIZER",
    "HookError",
    "Hooks",
    "Listener",
    "Release",
]
