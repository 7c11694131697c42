"""The KV sanitizer: finds the step that misplaces K/V, before its numbers come out wrong.

It is to this engine what a memory sanitizer is to C. It attaches to a scheduler's hooks, before the
exercise harness and the recorder, and keeps two things of its own: who owns each page
(``pages.py``), and a shadow of the pool that says for each layer and slot which prefix its K/V
belong to (``shadow.py``). It never asks the engine's own bookkeeping whether that is right. It
checks:

- ``on_allocate``: a page handed out was free, lies in the managed pool, is not the dummy page;
- ``on_free``, ``on_evict``: a page that comes back was not free, no living row reads it, and only
  eviction takes it out of the prefix cache;
- ``on_prepare``: each token of the batch goes to a page of its own request, where its row says;
- ``on_store``: the layer's K/V stand in the pool at ``out_loc``, and the model was given the right
  tokens; in the end, no layer was left out;
- ``on_attend``: each slot about to be read holds the K/V of the reader's prefix in this layer,
  unchanged since it was written;
- ``on_attention``, ``on_attention_done``: the layer's output was made of the K/V that it stored,
  not of what they replaced, whatever the backend calls in between.

A finding ends the turn as ``KVSanitizerError`` after the step has run whole; ``faults`` keeps them
all. A step costs about as much as gathering the batch's history once more; nothing is watched
unless a sanitizer is attached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..hooks import ORDER_SANITIZER, Listener, Release
from ..text import say
from .faults import Fault, KVSanitizerError
from .order_watch import OrderWatch
from .pages import CACHED, FREE, LiveRow, PageOwners
from .plan import Place, Plan, check_places, check_positions, feed, make_plan, wrong_token
from .pool_watch import PoolWatch
from .shadow import Chain

if TYPE_CHECKING:
    import torch

    from ..core import Batch, Req
    from ..kvcache.radix_cache import RadixTreeNode
    from ..scheduler.scheduler import ForwardInput, Scheduler
    from ..scheduler.utils import PendingReq

__all__ = ["Fault", "KVSanitizer", "KVSanitizerError"]


class KVSanitizer(Listener):
    """Watches one scheduler. ``faults`` keeps all findings; ``stop``: the first ends its turn."""

    def __init__(self, scheduler: Scheduler | None = None, *, stop: bool = True) -> None:
        self.faults: list[Fault] = []
        self.stop = stop
        self._scheduler: Scheduler | None = None
        if scheduler is not None:
            self.attach(scheduler)

    # ---- use ---------------------------------------------------------------------------------
    def attach(self, scheduler: Scheduler) -> KVSanitizer:
        """Begin to watch. What stands in the pool already is taken as right.

        Raises ValueError when a batch is on the device, the engine is closed, or this sanitizer has
        a scheduler already.
        """
        if self._scheduler is not None:
            raise ValueError("this sanitizer watches a scheduler already; make one for each engine")
        if getattr(scheduler, "closed", False):
            raise ValueError("this engine is closed; there is nothing to watch")
        if scheduler._launched:
            raise ValueError("a batch is on the device; attach the sanitizer between steps")
        manager = scheduler.cache_manager
        self._pages = PageOwners(manager.num_pages, manager.page_size, manager.page_table)
        self._chains: dict[int, Chain] = {}
        self._plans: dict[int, Plan] = {}
        self._turn = scheduler.turn
        slots = (manager.num_pages + 1) * manager.page_size
        self._pool = PoolWatch(scheduler.engine.kv_cache, slots, manager.page_size)
        self._order = OrderWatch(self._pool)
        self._scheduler = scheduler
        self._adopt(scheduler)
        scheduler.hooks.attach(self, order=ORDER_SANITIZER)
        return self

    def detach(self) -> None:
        """Stop watching; the faults stay."""
        if self._scheduler is not None:
            self._scheduler.hooks.detach(self)
            self._pool.close()
            self._scheduler = None

    def __enter__(self) -> KVSanitizer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.detach()

    def _report(self, faults: Iterable[Fault]) -> None:
        """Keep the faults; called last in a hook, so that the books are right whatever is found."""
        found = list(faults)
        self.faults.extend(found)
        if found and self.stop:
            raise KVSanitizerError(found[0])

    # ---- requests and pages --------------------------------------------------------------------
    def on_turn_begin(self, turn: int) -> None:
        self._turn = turn

    def on_admit(self, req: Req, pending: PendingReq, matched_slots: list[int] | None) -> None:
        if matched_slots is not None:
            self._chains[req.uid] = Chain(pending.input_ids.tolist())
            self._pages.rows[req.table_idx] = LiveRow(req.uid, len(matched_slots))

    def on_row(self, table_idx: int, taken: bool) -> None:
        if not taken:
            self._pages.rows.pop(table_idx, None)

    def on_allocate(self, spans: list[tuple[Req, int, int]], page_starts: list[int]) -> None:
        found: list[Fault] = []
        at = 0
        for req, first, last in spans:
            starts = page_starts[at : at + last - first]
            found += self._pages.hand_out(self._turn, req.uid, req.table_idx, first, starts)
            at += last - first
        self._report(found)

    def on_evict(self, page_starts: list[int]) -> None:
        self._report(list(self._pages.take_back(self._turn, page_starts, evicted=True)))

    def on_free(self, page_starts: list[int]) -> None:
        self._report(list(self._pages.take_back(self._turn, page_starts, evicted=False)))

    def on_release(self, release: Release) -> None:
        self._pages.register(release.slots[release.dup_end : release.new_len])
        if release.finished:
            self._chains.pop(release.req.uid, None)

    # ---- the step ------------------------------------------------------------------------------
    def on_prepare(self, forward_input: ForwardInput) -> None:
        self._pool.watch()
        plan = make_plan(forward_input.batch, self._turn, self._chains)
        # A step that failed leaves its plan behind; no plan outlives the turn after its own.
        self._plans = {k: p for k, p in self._plans.items() if p.turn >= self._turn - 1}
        self._plans[id(plan.batch)] = plan
        self._report(check_places(plan, self._pages))

    def on_store(self, layer_id: int, batch: Batch) -> None:
        if (plan := self._plans.get(id(batch))) is not None:
            plan.layers.add(layer_id)
            self._report([*_fed(plan), *self._pool.stored(plan, layer_id)])

    def on_attend(self, layer_id: int, batch: Batch) -> None:
        if (plan := self._plans.get(id(batch))) is not None:
            found = [*_fed(plan), *self._pool.read(plan, layer_id)]
            if found:
                plan.told.add(layer_id)
            self._report(found)

    def on_attention(self, layer_id: int, batch: Batch) -> None:
        if (plan := self._plans.get(id(batch))) is not None:
            self._order.begin(plan, layer_id)

    def on_attention_done(
        self, layer_id: int, batch: Batch, q: torch.Tensor, output: torch.Tensor
    ) -> None:
        if (plan := self._plans.get(id(batch))) is None:
            return
        if self._pool.has_stored(layer_id):  # by a backend that tells nobody
            self.on_store(layer_id, batch)
            self.on_attend(layer_id, batch)
        found = list(self._order.end(plan, layer_id, q, output))
        self._report(found if layer_id not in plan.told else [])

    def on_forward_done(self, batch: Batch, batch_id: int) -> None:
        self._pages.launched()

    def on_result(self, batch: Batch, batch_id: int, next_tokens: list[int]) -> None:
        if (plan := self._plans.pop(id(batch), None)) is not None:
            self._report([*self._skipped(plan), *_learned(plan, next_tokens)])

    def _skipped(self, plan: Plan) -> Iterator[Fault]:
        """Layers that stored nothing in a step that the device has run."""
        for layer in sorted(set(range(self._pool.pool.num_layers)) - plan.layers):
            place, slot = plan.places[0], int(plan.slots[0])
            text = say(
                "sanitizer.skipped", turn=plan.turn, layer=layer, slot=slot, **place._asdict()
            )
            wanted, found = say("sanitizer.want.new"), say("sanitizer.found.nothing")
            yield Fault("not-stored", text, plan.turn, *place, layer, slot, wanted, found)

    def _adopt(self, scheduler: Scheduler) -> None:
        """Take over what an engine that has run already holds."""
        owners, size = self._pages, self._pages.page_size
        owners.owner = [CACHED] * owners.num_pages
        for start in scheduler.cache_manager.free_slots.tolist():
            owners.owner[start // size] = FREE
        for chain, slots, first in _cached(scheduler):
            self._pool.adopt(chain, slots, first)
        prompts = {p.uid: p.input_ids for p in scheduler.prefill_manager.pending_list}
        for req in scheduler.live_reqs():
            ids = prompts.get(req.uid, req.input_ids)  # a chunk knows a part of its prompt
            self._chains[req.uid] = chain = Chain(ids.tolist())
            start, row = req.cache_handle.cached_len, owners.page_table[req.table_idx]
            end = -(-req.cached_len // size) * size
            owners.rows[req.table_idx] = LiveRow(req.uid, end)
            for slot in row[start:end:size].tolist():
                owners.owner[slot // size] = req.uid
            self._pool.adopt(chain, row[start : req.cached_len].tolist(), start)


def _fed(plan: Plan) -> list[Fault]:
    """What the model is given; looked at once, when the device takes it."""
    return [*check_positions(plan), *feed(plan)] if plan.prefix is None else []


def _learned(plan: Plan, next_tokens: list[int]) -> Iterator[Fault]:
    """The host knows the sampled tokens; a step ahead of it must have been given the same."""
    for (member, chain), token in zip(plan.real(), next_tokens, strict=False):
        if member.device_len >= len(chain.ids):
            fed = chain.learn(member.device_len, token)
            if fed is not None:
                yield wrong_token(plan.turn, Place(member.uid, member.device_len), token, fed)


def _cached(scheduler: Scheduler) -> Iterator[tuple[Chain, list[int], int]]:
    """Each node of a radix tree: the chain of its whole prefix, its slots, where they begin."""
    root = getattr(scheduler.cache_manager.prefix_cache, "root_node", None)
    stack: list[tuple[RadixTreeNode, list[int]]] = (
        [] if root is None else [(node, []) for node in root.children.values()]
    )
    while stack:
        node, before = stack.pop()
        ids = before + node._key.tolist()
        yield Chain(ids), node.value.tolist(), len(before)
        stack += [(child, ids) for child in node.children.values()]
