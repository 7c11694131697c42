"""What stands in the pool against what should: the sanitizer's view of stores and reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch

from ..text import say
from .faults import Fault
from .plan import Place, Plan, Reads, make_reads
from .shadow import Chain, Shadow, fingerprint

if TYPE_CHECKING:
    from ..kvcache import BaseKVCachePool


class PoolWatch:
    """Sits between the attention backend and one pool; keeps the pool's shadow.

    ``store_kv`` is watched from the outside: K and V are noted as they come in, and what stands at
    the batch's slots is read back afterwards, through the views that attention reads.
    """

    def __init__(self, pool: BaseKVCachePool, num_slots: int, page_size: int) -> None:
        self.pool, self.page_size, self.num_slots = pool, page_size, num_slots
        self.shadow = Shadow(pool.num_layers, num_slots, pool.device)
        self._produced: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        # What stands behind us, and whether it was the pool's own attribute; once more for each
        # time that somebody put himself in front of us.
        self._behind: list[tuple[Callable[..., None], bool]] = []
        self._depth = 0
        self.watch()

    def watch(self) -> None:
        """Stand in front of the pool's ``store_kv``; again, if somebody has replaced it since.

        Several watchers of one pool stand one behind the other.
        """
        if any(watcher is self for watcher in self._watchers()):
            return
        self._behind.append((self.pool.store_kv, "store_kv" in vars(self.pool)))
        self.pool.store_kv = self._store_kv  # type: ignore[method-assign]

    def close(self) -> None:
        """Step out of the way; whoever stands in front of us is still handed through."""
        before: PoolWatch | None = None
        for watcher in self._watchers():
            if watcher is self:
                break
            before = watcher
        else:
            return
        inner, was_own = self._behind[-1]
        if len(self._behind) > 1:  # who stands behind us now calls us in turn
            self._behind.pop()
        if before is not None:
            before._behind[-1] = (inner, was_own)
        elif was_own:
            self.pool.store_kv = inner  # type: ignore[method-assign]
        else:
            del self.pool.store_kv

    def _watchers(self) -> Iterator[PoolWatch]:
        """Those that stand in front of the pool's own ``store_kv``, the foremost first."""
        store: Callable[..., None] = self.pool.store_kv
        while isinstance(watcher := getattr(store, "__self__", None), PoolWatch):
            yield watcher
            store = watcher._behind[-1][0]

    def _store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        """NOTE: who stood in front of us before we did again calls us a second time, from inside;
        then it is the turn of what stood behind us at first."""
        if self._depth == 0:
            self._produced[layer_id] = (k, v)
        behind, _ = self._behind[max(0, len(self._behind) - 1 - self._depth)]
        self._depth += 1
        try:
            behind(k, v, out_loc, layer_id)
        finally:
            self._depth -= 1

    def has_stored(self, layer: int) -> bool:
        """Whether ``store_kv`` was called for the layer and ``stored`` has not looked at it yet."""
        return layer in self._produced

    def rows(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V at ``slots`` of a layer: (n, H_kv, D) each, copies."""
        k, v = self.pool.k_cache(layer), self.pool.v_cache(layer)
        return k.flatten(0, 1)[slots], v.flatten(0, 1)[slots]

    # ---- writes --------------------------------------------------------------------------------
    def stored(self, plan: Plan, layer: int) -> Iterator[Fault]:
        """The layer's store is over: compare, and note what stands there now."""
        assert plan.prefix is not None
        produced = self._produced.pop(layer, None)
        content = fingerprint(*self.rows(layer, plan.slots))
        wanted = None
        if produced is not None:
            count = len(plan.batch.out_loc)
            rows = [part.reshape(count, -1) for part in produced]
            if plan.padded:
                rows = [part[plan.index] for part in rows]
            wanted = fingerprint(*rows)
            if torch.equal(wanted, content):
                self.shadow.record(layer, plan.slots, plan.prefix, content, plan.writer)
                return
        bad = torch.ones_like(plan.slots, dtype=torch.bool) if wanted is None else wanted != content
        fault = self._not_stored(plan, layer, bad, wanted)
        good = ~bad
        self.shadow.record(
            layer, plan.slots[good], plan.prefix[good], content[good], plan.writer[good]
        )
        yield fault

    def _not_stored(
        self, plan: Plan, layer: int, bad: torch.Tensor, wanted: torch.Tensor | None
    ) -> Fault:
        first = int(bad.nonzero()[0, 0])
        place, slot = plan.places[first], int(plan.slots[first])
        found = self._content_of(layer, slot)
        where, values = "", dict[str, int]()
        if wanted is None:
            where = ".uncalled"
        elif (other := self._search(int(wanted[first]))) is not None:
            where = ".elsewhere" if other[0] == layer else ".layer"
            values = {"other": other[1], "other_layer": other[0]}
        text = say(
            f"sanitizer.stored{where}",
            turn=plan.turn,
            layer=layer,
            slot=slot,
            i=int(plan.index[first]),
            found=found,
            **place._asdict(),
            **values,
        )
        wanted_text = say("sanitizer.want.stored", uid=place.uid)
        return Fault("not-stored", text, plan.turn, *place, layer, slot, wanted_text, found)

    def _search(self, wanted: int) -> tuple[int, int] | None:
        """The (layer, slot) where these K/V stand instead. Reads the whole pool."""
        every = torch.arange(self.num_slots, device=self.pool.device)
        for layer in range(self.pool.num_layers):
            hits = (fingerprint(*self.rows(layer, every)) == wanted).nonzero()
            if len(hits) > 0:
                return layer, int(hits[0, 0])
        return None

    # ---- reads ---------------------------------------------------------------------------------
    def read(self, plan: Plan, layer: int) -> Iterator[Fault]:
        """The layer is about to read the batch's history."""
        if plan.reads is None:
            plan.reads = make_reads(plan, self.page_size, self.num_slots)
        reads, shadow = plan.reads, self.shadow
        prefix = shadow.prefix[layer, reads.slots]
        content, now = (
            shadow.content[layer, reads.slots],
            fingerprint(*self.rows(layer, reads.slots)),
        )
        if torch.equal(prefix, reads.prefix) and torch.equal(content, now):
            return
        stale = prefix != reads.prefix
        if bool(stale.any()):
            yield self._stale(plan, reads, layer, int(stale.nonzero()[0, 0]))
        else:
            changed = content != now
            yield self._overwritten(plan, reads, layer, int(changed.nonzero()[0, 0]))

    def _stale(self, plan: Plan, reads: Reads, layer: int, at: int) -> Fault:
        place, slot = reads.places[at], int(reads.slots[at])
        outside = reads.outside.get(at)
        found = self._content_of(layer, slot)
        if outside is not None:
            slot, found = outside, say("sanitizer.found.outside")
        expected = _wanted(reads.chains[at], place)
        text = say(
            "sanitizer.stale",
            turn=plan.turn,
            layer=layer,
            slot=slot,
            expected=expected,
            found=found,
            **place._asdict(),
        )
        return Fault("stale-read", text, plan.turn, *place, layer, slot, expected, found)

    def _overwritten(self, plan: Plan, reads: Reads, layer: int, at: int) -> Fault:
        place, slot = reads.places[at], int(reads.slots[at])
        written = self.shadow.who(layer, slot)
        now = fingerprint(*self.rows(layer, reads.slots[at : at + 1]))
        origin = self.shadow.find(int(now[0]))
        found = say("sanitizer.found.foreign")
        if origin is not None:
            who = self.shadow.who(*origin)
            found = say("sanitizer.found.copy", layer=origin[0], slot=origin[1], who=who)
        text = say(
            "sanitizer.overwritten",
            turn=plan.turn,
            layer=layer,
            slot=slot,
            written=written,
            found=found,
            **place._asdict(),
        )
        return Fault("overwritten", text, plan.turn, *place, layer, slot, str(written), found)

    def _content_of(self, layer: int, slot: int) -> str:
        writer = self.shadow.who(layer, slot)
        if writer is None:
            return say("sanitizer.found.never")
        return say("sanitizer.found.kv", who=writer)

    # ---- what is there at the start ------------------------------------------------------------
    def adopt(self, chain: Chain, slots: list[int], first: int) -> None:
        """Take ``slots`` as right: in every layer the chain's positions from ``first`` on."""
        if not slots:
            return
        device = self.pool.device
        where = torch.tensor(slots, device=device)
        prefix = torch.tensor(chain.hashes(first + len(slots))[first:], device=device)
        writer = torch.tensor(
            [[-1, first + i, -1] for i in range(len(slots))], dtype=torch.int32, device=device
        )
        for layer in range(self.pool.num_layers):
            self.shadow.record(layer, where, prefix, fingerprint(*self.rows(layer, where)), writer)


def _wanted(chain: Chain, place: Place) -> str:
    """The K/V a reader needs, in words: its token and the few before it."""
    before = [chain.token(i) for i in range(max(0, place.position - 4), place.position)]
    token = chain.token(place.position)
    if not before:
        return say("sanitizer.want.first", token=token)
    dots = "…, " if place.position > 4 else ""
    return say("sanitizer.want.after", token=token, before=dots + ", ".join(map(str, before)))
