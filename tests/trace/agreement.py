"""Whether a replayed state is the scheduler's own."""

from __future__ import annotations

from minisgl_lite.kvcache import RadixPrefixCache
from minisgl_lite.scheduler import ChunkedReq, Scheduler
from minisgl_lite.trace import State


def real_tree(scheduler: Scheduler) -> dict[int, tuple[object, ...]]:
    cache = scheduler.cache_manager.prefix_cache
    if not isinstance(cache, RadixPrefixCache):
        return {}
    return {
        node.uuid: (
            node.parent.uuid,
            node._key.tolist(),
            node.value.tolist(),
            node.ref_count,
            node.timestamp,
        )
        for node in cache.nodes()
    }


def replayed_tree(state: State) -> dict[int, tuple[object, ...]]:
    return {
        node.id: (node.parent, node.key, node.value, node.ref_count, node.time)
        for node in state.tree.values()
        if node.parent is not None
    }


def assert_same(state: State, scheduler: Scheduler) -> None:
    assert state.free == scheduler.cache_manager.free_slots.tolist()
    assert replayed_tree(state) == real_tree(scheduler)
    for node in state.tree.values():
        assert node.children == {n.id for n in state.tree.values() if n.parent == node.id}
    live = {req.uid: req for req in scheduler.live_reqs()}
    assert {req.uid for req in state.live()} == set(live)
    for req in state.live():
        real = live[req.uid]
        assert (req.row, req.cached_len, req.device_len) == (
            real.table_idx,
            real.cached_len,
            real.device_len,
        )
        assert req.handle_len == real.cache_handle.cached_len
        node = getattr(real.cache_handle, "node", None)
        assert req.node == (None if node is None else node.uuid)
        end = -(-req.cached_len // state.page_size) * state.page_size
        cells = scheduler.engine.page_table[req.row, :end].tolist()
        assert state.row(req) == cells
        if not isinstance(real, ChunkedReq):
            assert req.ids == real.input_ids.tolist()
            assert req.max_device_len == real.max_device_len
            assert req.shown == len(req.ids) - req.input_len
    pending = {p.uid for p in scheduler.prefill_manager.pending_list}
    assert {r.uid for r in state.reqs.values() if r.state in ("waiting", "chunk")} == pending
    assert state.balance().holds and state.conflicts() == []
