"""The six worked examples that the book's pages count through."""

from __future__ import annotations

import pytest
import torch
from helpers.books import audit
from helpers.managers import ints, make_managers
from helpers.world import make_world

from minisgl_lite.core import Context, use_ctx
from minisgl_lite.kvcache.mha_pool import MHAKVCache
from minisgl_lite.kvcache.radix_cache import RadixPrefixCache


def test_example_1_three_free_pages_expand_to_twelve_slots() -> None:
    manager = make_managers(3, 4).cache
    assert manager.free_slots.tolist() == [0, 4, 8]
    pages = [manager._page_to_token(page.view(1)).tolist() for page in manager.free_slots]
    assert pages == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert 8 // manager.page_size == 2  # the value 8 is page 2


def test_example_2_out_loc_writes_two_slots_of_one_layer() -> None:
    pool = MHAKVCache(2, 3, 8, 4, 4, torch.float32, torch.device("cpu"))
    pool._kv_buffer.zero_()
    k = torch.full((2, 2, 8), 1.0)
    pool.store_kv(k, 2 * k, ints([4, 5]), layer_id=1)
    for layer in range(3):
        for cache, value in ((pool.k_cache(layer), 1.0), (pool.v_cache(layer), 2.0)):
            slots = cache.reshape(16, 2, 8)
            assert (slots[4:6] == (value if layer == 1 else 0.0)).all()
            assert (slots[:4] == 0).all() and (slots[6:] == 0).all()


@pytest.mark.parametrize(("prompt", "pages"), [(4, [1, 1, 0]), (3, [1, 0, 1])])
def test_example_3_new_pages_per_step(prompt: int, pages: list[int]) -> None:
    w = make_world(8, 4)
    w.add(0, range(1, prompt + 1), max_tokens=3)
    taken = []
    allocate = w.cache.allocate_paged
    w.cache.allocate_paged = lambda reqs: (
        before := len(w.free),
        allocate(reqs),
        taken.append(before - len(w.free)),
    )
    w.run()
    assert taken == pages


@pytest.mark.parametrize(("page_size", "extends"), [(4, [8, 4]), (1, [8, 1])])
def test_example_4_the_last_token_of_a_cached_prompt_is_computed(
    page_size: int, extends: list[int]
) -> None:
    w = make_world(32 // page_size, page_size)
    for uid in (0, 1):
        w.add(uid, range(1, 9), max_tokens=1)
        w.run()
    assert [w.extends[uid][0][1] for uid in (0, 1)] == extends


def test_example_5_lock_and_evict_a_split_prefix() -> None:
    with use_ctx(Context(page_size=1)):
        cache = RadixPrefixCache(torch.device("cpu"))
    cache.insert_prefix(ints(range(1, 9)), ints(range(8)))
    handle = cache.match_prefix(ints([1, 2, 3, 4, 50])).cuda_handle
    cache.lock_handle(handle)
    assert tuple(cache.size_info) == (4, 4)
    with pytest.raises(RuntimeError):
        cache.evict(8)
    assert cache.evict(4).tolist() == [4, 5, 6, 7]
    cache.lock_handle(handle, unlock=True)
    assert tuple(cache.size_info) == (4, 0)


def test_example_6_a_duplicate_is_pointed_at_the_cached_pages() -> None:
    w = make_world(8, 4)
    w.add(0, range(1, 10), max_tokens=1)
    w.add(1, range(1, 10), max_tokens=3)
    w.step()
    assert w.batches == [("prefill", [0, 1])]
    assert w.row(1, 9) == [0, 1, 2, 3, 4, 5, 6, 7, 20]
    assert set(w.free) == {8, 12, 16, 24, 28}
    assert w.sizes == (0, 8)
    audit(w.scheduler)
