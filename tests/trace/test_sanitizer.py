"""The KV sanitizer finds each kind of planted fault, and says where, whose and since when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from minisgl_lite import LLM
from minisgl_lite.core import Req
from minisgl_lite.hooks import HookError
from minisgl_lite.kvcache import BaseCacheHandle
from minisgl_lite.scheduler import CacheManager, Managers, Scheduler
from minisgl_lite.trace import KVSanitizer, KVSanitizerError
from minisgl_lite.trace.faults import Fault

from .worlds import finish, make_scheduler, run_stream, send


def watched(**kwargs: Any) -> tuple[Scheduler, KVSanitizer]:
    scheduler = make_scheduler(**kwargs)
    return scheduler, KVSanitizer(scheduler)


def first_fault(scheduler: Scheduler, run: Callable[[], None] | None = None) -> Fault:
    """The fault that ends the run; ``run`` is by default: until all is answered."""
    with pytest.raises(KVSanitizerError) as caught:
        (run or (lambda: finish(scheduler)))()
    assert str(caught.value) == caught.value.fault.text
    return caught.value.fault


def kinds_after(scheduler: Scheduler, sanitizer: KVSanitizer) -> list[str]:
    """All kinds of faults of a run that is not stopped."""
    sanitizer.stop = False
    finish(scheduler)
    return [fault.kind for fault in sanitizer.faults]


# ---- who owns which page ---------------------------------------------------------------------


class StaleRows(CacheManager):
    """Frees a duplicate prefix but leaves the living row pointing at it."""

    def _remap(self, *args: Any) -> None:
        return None


def test_stale_row_is_found_when_its_pages_are_freed() -> None:
    scheduler, _ = watched(managers=Managers(cache=StaleRows))
    send(scheduler, 0, range(1, 10), 1)
    send(scheduler, 1, range(1, 10), 5)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.uid, fault.position, fault.slot) == ("freed-in-use", 1, 0, 12)
    assert fault.text == (
        "step 1: page 3 (slot 12) was freed, but r1 lives and reads it at position 0"
    )


def test_stale_row_is_found_by_its_content_too() -> None:
    scheduler, sanitizer = watched(managers=Managers(cache=StaleRows))
    sanitizer.stop = False
    send(scheduler, 0, range(1, 10), 1)
    send(scheduler, 1, range(1, 10), 4)
    scheduler.normal_loop()
    send(scheduler, 2, range(50, 66), 2)  # takes a page that r1 still reads
    finish(scheduler)
    fault = next(fault for fault in sanitizer.faults if fault.kind == "stale-read")
    assert (fault.uid, fault.layer) == (1, 0)
    assert fault.expected == "K/V of token 1 at the beginning"
    assert fault.found is not None and fault.found.startswith("K/V of r2's position ")
    assert fault.found.endswith("written in step 2")


class DoubleFree(CacheManager):
    def _free(self, indices: torch.Tensor) -> None:
        super()._free(indices)
        super()._free(indices)


def test_double_free() -> None:
    scheduler, _ = watched(managers=Managers(cache=DoubleFree))
    send(scheduler, 0, [1, 2], 2)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.slot, fault.turn) == ("double-free", 0, 2)
    assert fault.text == "step 2: page 0 (slot 0) was freed, but it is free already"


class FreesWhatItRegistered(CacheManager):
    """Returns a finished request's whole pages, too, although the tree keeps them."""

    def cache_req(self, req: Req, *, finished: bool) -> None:
        whole = req.cached_len // self.page_size * self.page_size
        slots = self.page_table[req.table_idx, :whole].clone()
        super().cache_req(req, finished=finished)
        if finished:
            self._free(slots)


def test_page_freed_while_the_tree_keeps_it() -> None:
    scheduler, _ = watched(managers=Managers(cache=FreesWhatItRegistered))
    send(scheduler, 0, range(1, 6), 2)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.slot, fault.turn) == ("freed-while-cached", 0, 2)
    assert "page 0 (slot 0) was freed, but it is in the prefix cache" in fault.text


class NeverLocks(CacheManager):
    def lock(self, handle: BaseCacheHandle) -> None:
        pass

    unlock = lock


def test_missed_lock_is_found_when_the_prefix_is_evicted() -> None:
    scheduler, _ = watched(managers=Managers(cache=NeverLocks))
    send(scheduler, 0, range(1, 10), 8)
    scheduler.normal_loop()
    send(scheduler, 1, range(20, 40), 4)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.uid, fault.position, fault.slot) == ("evicted-in-use", 0, 0, 0)
    assert "r0 lives and reads it at position 0" in fault.text


class FreesTheTail(CacheManager):
    """Returns the part page at the end of a prefill although the request goes on."""

    def cache_req(self, req: Req, *, finished: bool) -> None:
        super().cache_req(req, finished=finished)
        if not finished:
            end = -(-req.cached_len // self.page_size) * self.page_size
            self._free(self.page_table[req.table_idx, req.cache_handle.cached_len : end])


def test_freed_tail_of_a_live_request() -> None:
    scheduler, _ = watched(managers=Managers(cache=FreesTheTail))
    send(scheduler, 0, range(1, 7), 5)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.uid, fault.position, fault.slot) == ("freed-in-use", 0, 4, 4)


def test_dummy_page_handed_out() -> None:
    scheduler, _ = watched()
    manager = scheduler.cache_manager
    manager.free_slots = torch.cat([torch.tensor([32], dtype=torch.int32), manager.free_slots])
    send(scheduler, 0, [1, 2, 3], 2)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.uid, fault.position, fault.slot) == ("not-a-page", 0, 0, 32)
    assert fault.text == "step 1: page start 32 was handed out to r0; it lies in the dummy page"


class HandsOutTwice(CacheManager):
    def _allocate(self, needed_pages: int) -> torch.Tensor:
        return self.free_slots[:needed_pages]


def test_page_handed_out_twice() -> None:
    scheduler, _ = watched(managers=Managers(cache=HandsOutTwice))
    send(scheduler, 0, [1, 2, 3], 5)
    scheduler.normal_loop()
    send(scheduler, 1, [4, 5, 6], 5)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.uid, fault.position, fault.slot) == ("handed-out-twice", 1, 0, 0)
    assert fault.found == "is r0's own"


def test_unaligned_page_start() -> None:
    scheduler, _ = watched()
    scheduler.cache_manager.free_slots = torch.tensor([2, 8], dtype=torch.int32)
    send(scheduler, 0, [1, 2, 3], 2)
    assert "does not begin a page of 4" in first_fault(scheduler).text


# ---- where a step writes ---------------------------------------------------------------------


def looks_up_before_allocating(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    """``out_loc`` holds what the rows said before this step's pages were allocated."""
    manager, allocate = scheduler.cache_manager, scheduler.cache_manager.allocate_paged
    before: dict[str, torch.Tensor] = {}

    def remember(reqs: list[Req]) -> None:
        before["table"] = manager.page_table.clone()
        allocate(reqs)

    prepare = scheduler.engine.attn_backend.prepare_metadata

    def use_old(batch: Any) -> None:
        rows = [row for req in batch.padded_reqs for row in [req.table_idx] * req.extend_len]
        batch.out_loc = before["table"][torch.tensor(rows), batch.positions.long()]
        prepare(batch)

    monkeypatch.setattr(manager, "allocate_paged", remember)
    monkeypatch.setattr(scheduler.engine.attn_backend, "prepare_metadata", use_old)


def test_write_before_allocate(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, _ = watched()
    send(scheduler, 0, [1, 2, 3], 8)
    scheduler.normal_loop()
    looks_up_before_allocating(scheduler, monkeypatch)
    send(scheduler, 1, [4, 5, 6], 8)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.uid, fault.position, fault.slot) == ("write-place", 1, 0, 0)
    assert fault.text == (
        "step 2: r1 is about to write position 0 to slot 0, but that slot is r0's own;"
        " its row says slot 4"
    )


def patch_store(
    scheduler: Scheduler, change: Callable[..., tuple[torch.Tensor, int] | None]
) -> KVSanitizer:
    """``store_kv`` writes elsewhere, or (None) not at all; then a sanitizer over it."""
    pool = scheduler.engine.kv_cache
    store = pool.store_kv

    def faulty(k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int) -> None:
        where = change(out_loc, layer_id)
        if where is not None:
            store(k, v, *where)

    pool.store_kv = faulty
    return KVSanitizer(scheduler)


def test_store_one_slot_off() -> None:
    scheduler = make_scheduler()
    patch_store(scheduler, lambda out_loc, layer: (out_loc + 1, layer))
    send(scheduler, 0, [1, 2, 3], 2)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.uid, fault.position) == ("not-stored", 0, 0)
    assert (fault.layer, fault.slot) == (0, 0)
    assert fault.text == (
        "step 1, layer 0: K/V of r0's position 0 were not written to slot 0 = out_loc[0];"
        " they stand in slot 1; slot 0 holds nothing that was ever written"
    )


def test_store_one_slot_off_names_who_wrote_what_is_there() -> None:
    scheduler = make_scheduler()
    off = 0
    patch_store(scheduler, lambda out_loc, layer: (out_loc + off, layer))
    send(scheduler, 0, [1, 2], 2)
    finish(scheduler)
    scheduler.cache_manager.free_slots = scheduler.cache_manager.free_slots.flip(0)
    off = 1
    send(scheduler, 1, [7, 8], 2)  # gets the page that r0 gave back
    fault = first_fault(scheduler)
    assert (fault.uid, fault.slot, fault.turn) == (1, 0, 3)
    assert "slot 0 holds K/V of r0's position 0, written in step 1" in fault.text


def test_two_layers_mixed_up_in_the_store() -> None:
    scheduler = make_scheduler()
    patch_store(scheduler, lambda out_loc, layer: (out_loc, 1 - layer))
    send(scheduler, 0, [1, 2, 3], 2)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.layer, fault.slot, fault.position) == ("not-stored", 0, 0, 0)
    assert "they stand in slot 0 of layer 1" in fault.text


def test_two_layers_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layer 1 is layer 0's memory: each store is right, the next step reads the other's."""
    scheduler = make_scheduler()
    pool = scheduler.engine.kv_cache
    monkeypatch.setattr(pool, "_k_buffer", pool._k_buffer[:1].expand(2, -1, -1, -1, -1))
    monkeypatch.setattr(pool, "_v_buffer", pool._v_buffer[:1].expand(2, -1, -1, -1, -1))
    KVSanitizer(scheduler)
    send(scheduler, 0, [1, 2, 3], 4)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.turn, fault.layer, fault.uid) == ("overwritten", 2, 0, 0)
    assert "it held r0's position 0, written in step 1" in fault.text
    assert "a copy of layer 1, slot 0 (r0's position 0, written in step 1)" in fault.text


def test_skipped_layer() -> None:
    scheduler = make_scheduler()
    patch_store(scheduler, lambda out_loc, layer: None if layer == 1 else (out_loc, layer))
    send(scheduler, 0, [1, 2, 3], 2)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.layer, fault.slot, fault.uid) == ("not-stored", 1, 0, 0)


def test_layer_whose_attention_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, _ = watched()
    emit = scheduler.hooks.emit

    def without_layer_1(event: str, *args: Any) -> None:
        if event not in ("on_store", "on_attend") or args[0] != 1:
            emit(event, *args)

    monkeypatch.setattr(scheduler.hooks, "emit", without_layer_1)
    send(scheduler, 0, [1, 2, 3], 2)
    fault = first_fault(scheduler)
    assert fault.text == (
        "step 1, layer 1: stored nothing in this step; K/V of r0's position 0 are missing in slot 0"
    )


def test_store_in_another_order() -> None:
    scheduler = make_scheduler()
    patch_store(scheduler, lambda out_loc, layer: (out_loc.flip(0), layer))
    send(scheduler, 0, [1, 2, 3], 2)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.slot) == ("not-stored", 0)
    assert "they stand in slot 2" in fault.text


def test_padding_that_writes_a_real_slot() -> None:
    scheduler, _ = watched(graph_bs=(4,))
    scheduler.engine.page_table[-1] = 20
    send(scheduler, 0, [1, 2, 3], 3)
    fault = first_fault(scheduler)
    assert (fault.kind, fault.slot) == ("write-place", 20)
    assert "a padding row is about to write slot 20, which is free" in fault.text


# ---- what a step reads -----------------------------------------------------------------------


def test_overwrite_that_nobody_announced() -> None:
    scheduler, _ = watched()
    send(scheduler, 0, [1, 2, 3], 5)
    scheduler.normal_loop()
    scheduler.engine.kv_cache.v_cache(1).view(-1)[2] = 5.0
    fault = first_fault(scheduler)
    assert (fault.kind, fault.uid, fault.position) == ("overwritten", 0, 2)
    assert (fault.layer, fault.slot) == (1, 2)
    assert "it held r0's position 2, written in step 1" in fault.text


def test_row_that_points_elsewhere() -> None:
    scheduler, _ = watched()
    send(scheduler, 0, [1, 2, 3], 5)
    send(scheduler, 1, [4, 5, 6], 5)
    scheduler.normal_loop()
    row = scheduler.live_reqs()[0].table_idx
    scheduler.engine.page_table[row, 1] = 6
    fault = first_fault(scheduler)
    assert (fault.kind, fault.uid, fault.position, fault.slot) == ("stale-read", 0, 1, 6)
    assert fault.expected == "K/V of token 2 after [1]"
    assert fault.found == "K/V of r1's position 2, written in step 1"


def test_slot_that_was_never_written() -> None:
    scheduler, _ = watched()
    send(scheduler, 0, [1, 2, 3], 5)
    scheduler.normal_loop()
    scheduler.engine.page_table[scheduler.live_reqs()[0].table_idx, 1] = 30
    fault = first_fault(scheduler)
    assert (fault.slot, fault.found) == (30, "nothing that was ever written")


def test_slot_outside_the_pool() -> None:
    scheduler, sanitizer = watched()
    sanitizer.stop = False
    send(scheduler, 0, [1, 2, 3], 5)
    scheduler.normal_loop()
    scheduler.engine.page_table[scheduler.live_reqs()[0].table_idx, 1] = 4000
    with pytest.raises(IndexError):
        scheduler.normal_loop()
    assert "outside the pool" in sanitizer.faults[0].text


@pytest.mark.parametrize(("overlap", "late"), [(False, False), (True, False), (True, True)])
def test_token_that_is_not_the_requests(overlap: bool, late: bool) -> None:
    """Somebody else's ids in ``token_pool``, as when a row is refilled under a running step."""
    scheduler, _ = watched(script=[7, 8, 9, 10, 11, 12], late=late)
    send(scheduler, 0, [1, 2, 3], 6)
    data: Any = None

    def run() -> None:
        nonlocal data
        for turn in range(8):
            if overlap:
                data = scheduler.overlap_loop(data)
            else:
                scheduler.normal_loop()
            if turn == 2:
                scheduler.engine_stream.issue(lambda: scheduler.token_pool.fill_(55))

    fault = first_fault(scheduler, run)
    assert (fault.kind, fault.uid, fault.found) == ("wrong-token", 0, "55")


# ---- no false alarms -------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("overlap", [False, True])
def test_attached_late_it_takes_what_is_there_as_right(page_size: int, overlap: bool) -> None:
    for seed in range(6):
        scheduler = make_scheduler(page_size=page_size, num_pages=32 // page_size, budget=5)
        sanitizers: list[KVSanitizer] = []

        def attach(scheduler: Scheduler = scheduler, found: list[Any] = sanitizers) -> None:
            if scheduler.turn >= 6 and not found and not scheduler._launched:
                found.append(KVSanitizer(scheduler))

        run_stream(scheduler, seed, overlap=overlap, after_turn=attach)
        assert overlap or sanitizers
        assert all(sanitizer.faults == [] for sanitizer in sanitizers)


def test_equal_kv_written_again_is_no_fault() -> None:
    scheduler, sanitizer = watched(cache_type="naive")
    for uid in range(3):
        send(scheduler, uid, [1, 2, 3], 2)
        finish(scheduler)
    assert sanitizer.faults == []


def test_real_layers_of_a_tiny_model() -> None:
    with LLM("tiny", page_size=4, num_pages=16, max_running_req=4) as llm:
        sanitizer = KVSanitizer(llm)
        prompts = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 9], [1, 2, 3, 4, 5, 6]]
        llm.generate(prompts)
        llm.generate(prompts)
        assert sanitizer.faults == []
        sanitizer.detach()
        assert "store_kv" not in vars(llm.engine.kv_cache)


def test_real_layers_with_a_skipped_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with LLM("tiny", page_size=4, num_pages=16) as llm:
        pool, store = llm.engine.kv_cache, llm.engine.kv_cache.store_kv
        monkeypatch.setattr(
            pool,
            "store_kv",
            lambda k, v, out, layer: None if layer == 1 else store(k, v, out, layer),
        )
        KVSanitizer(llm)
        with pytest.raises(KVSanitizerError) as caught:
            llm.generate([[1, 2, 3]])
        assert (caught.value.fault.layer, caught.value.fault.kind) == (1, "not-stored")


# ---- use -------------------------------------------------------------------------------------


def test_a_fault_ends_its_turn_and_leaves_the_scheduler_usable() -> None:
    scheduler, sanitizer = watched()
    send(scheduler, 0, [1, 2, 3], 5)
    scheduler.normal_loop()
    scheduler.engine.kv_cache.v_cache(0).view(-1)[0] = 5.0
    with pytest.raises(KVSanitizerError):
        scheduler.normal_loop()
    sanitizer.stop = False
    finish(scheduler)
    scheduler.run_when_idle()
    assert [reply.uid for reply in scheduler.io.replies] == [0] * 5


def test_one_fault_makes_no_others() -> None:
    """After a double hand-out was noted, the books follow the engine again."""
    scheduler, sanitizer = watched()
    scheduler.cache_manager.free_slots = torch.tensor([0, 0, 8], dtype=torch.int32)
    send(scheduler, 0, [1, 2, 3, 4, 5, 6], 1)
    assert kinds_after(scheduler, sanitizer)[:1] == ["handed-out-twice"]


def test_errors_are_hook_errors_and_need_a_scheduler_each() -> None:
    assert issubclass(KVSanitizerError, HookError)
    scheduler, sanitizer = watched()
    with pytest.raises(ValueError, match="watches a scheduler already"):
        sanitizer.attach(scheduler)


def test_attaching_over_a_running_step_is_refused() -> None:
    scheduler = make_scheduler(late=True)
    send(scheduler, 0, [1, 2, 3], 5)
    scheduler.overlap_loop(None)
    with pytest.raises(ValueError, match="a batch is on the device"):
        KVSanitizer(scheduler)
