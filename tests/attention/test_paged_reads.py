"""Attention reads through `page_table`: no second copy of the cache is kept anywhere."""

from __future__ import annotations

import pytest
import torch
from helpers.tiny import PROMPTS, assert_close, keep_logits, make_llm, run
from helpers.tree import walk_nodes

from minisgl_lite import LLM

each_cache = pytest.mark.parametrize("cache", ["radix", "naive"])
EDIT_AFTER = 3  # turns: prefill, then two decode steps


def reference(**kwargs) -> tuple[dict[int, list[int]], list[torch.Tensor]]:
    with make_llm(**kwargs) as llm:
        logits = keep_logits(llm)
        return run(llm), logits


def permute(llm: LLM, seed: int = 0) -> None:
    """Move every managed page elsewhere, and everything that names a slot with it."""
    manager, page_size = llm.cache_manager, llm.cache_manager.page_size
    torch.manual_seed(seed)
    to = torch.randperm(manager.num_pages)
    assert (to != torch.arange(len(to))).sum() > len(to) // 2
    buffer = llm.engine.kv_cache._kv_buffer
    moved = buffer.clone()
    moved[:, :, to] = buffer[:, :, : len(to)]
    buffer.copy_(moved)

    def new_slots(slots: torch.Tensor) -> torch.Tensor:
        old = slots.long()
        inside = old < manager.num_pages * page_size
        page = to[(old // page_size).clamp(max=len(to) - 1)]
        return torch.where(inside, page * page_size + old % page_size, old).to(slots.dtype)

    table = llm.engine.page_table
    table.copy_(new_slots(table))
    manager.free_slots = new_slots(manager.free_slots)
    if hasattr(manager.prefix_cache, "root_node"):
        for _, node in walk_nodes(manager.prefix_cache):
            node._value = new_slots(node._value)


@each_cache
@pytest.mark.parametrize("page_size", [1, 3, 4])
def test_pages_and_table_permuted_together_give_the_same_logits(cache: str, page_size: int) -> None:
    sizes = {"page_size": page_size, "num_pages": 96 // page_size, "cache_type": cache}
    tokens, want = reference(**sizes)
    with make_llm(**sizes) as llm:
        got = keep_logits(llm)
        assert run(llm, between=lambda turn: permute(llm, turn)) == tokens
    assert_close(got, want, atol=0)


def test_pages_permuted_without_the_table_change_the_logits() -> None:
    """The counter-test: what stays behind is really read."""
    _, want = reference()
    with make_llm() as llm:
        got = keep_logits(llm)

        def swap(turn: int) -> None:
            if turn == EDIT_AFTER:
                buffer = llm.engine.kv_cache._kv_buffer
                buffer.copy_(buffer.roll(1, dims=2))

        run(llm, between=swap)
    assert_close(got[:EDIT_AFTER], want[:EDIT_AFTER], atol=0)
    # What was never written may be read now, and may be no number.
    difference = (got[EDIT_AFTER] - want[EDIT_AFTER]).nan_to_num(nan=torch.inf)
    assert difference.abs().max() > 1e-3


@pytest.mark.parametrize("which", [0, 1], ids=["key", "value"])
@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("position", [0, 3, 8])
def test_an_edited_slot_changes_the_logits_of_those_who_read_it(
    which: int, layer: int, position: int
) -> None:
    _, want = reference()
    with make_llm() as llm:
        got = keep_logits(llm)
        readers: list[bool] = []

        def edit(turn: int) -> None:
            if turn != EDIT_AFTER:
                return
            reqs = llm.live_reqs()
            table = llm.engine.page_table
            slot = int(table[reqs[0].table_idx, position])
            readers.extend(slot in table[req.table_idx, : req.cached_len].tolist() for req in reqs)
            pages = llm.engine.kv_cache._kv_buffer[which, layer]
            pages.flatten(0, 1)[slot] += 1.0

        run(llm, between=edit)
    assert readers[0]
    assert readers[2] is False
    change = (got[EDIT_AFTER] - want[EDIT_AFTER]).abs().amax(-1)
    for row, reads in enumerate(readers):
        if reads:
            assert change[row] > 1e-4, f"row {row} reads the slot and did not notice"
        else:
            assert change[row] == 0, f"row {row} does not read the slot and noticed"


@each_cache
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("budget", [8192, 3])
@pytest.mark.parametrize("overlap", [False, True])
def test_what_nobody_owns_is_never_read(
    cache: str, page_size: int, budget: int, overlap: bool
) -> None:
    """The pool starts as NaN, and every freed slot is NaN again after each turn."""
    sizes = {
        "page_size": page_size,
        "num_pages": 96 // page_size,
        "cache_type": cache,
        "max_extend_tokens": budget,
        "overlap": overlap,
        "cuda_graph_bs": [4],
    }
    tokens, want = reference(**sizes)
    with make_llm(**sizes) as llm:
        buffer = llm.engine.kv_cache._kv_buffer
        buffer.fill_(float("nan"))
        got = keep_logits(llm)

        def poison(turn: int) -> None:
            for start in llm.cache_manager.free_slots.tolist():
                buffer[:, :, start // page_size] = float("nan")

        assert run(llm, between=poison) == tokens
        assert run(llm, between=poison) == tokens  # now with hits, where the cache is radix
    assert_close(got[: len(want)], want, atol=0)
    assert all(logits.isfinite().all() for logits in got)


def test_a_run_needs_no_memory_beyond_the_pool() -> None:
    """The backend holds the pool itself, not a copy."""
    with make_llm() as llm:
        pool = llm.engine.kv_cache
        assert llm.engine.attn_backend.kvcache is pool
        assert pool.k_cache(0).data_ptr() == pool._kv_buffer.data_ptr()
        run(llm, PROMPTS)
        assert llm.engine.attn_backend.kvcache is pool
