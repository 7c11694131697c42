from __future__ import annotations

import pytest
import torch

from minisgl_lite.kvcache.base import BaseKVCachePool
from minisgl_lite.kvcache.mha_pool import MHAKVCache

CPU = torch.device("cpu")
REFUSALS = (ValueError, IndexError, AssertionError, RuntimeError)


def make_pool(
    layers: int = 3, pages: int = 5, page_size: int = 4, heads: int = 2, dim: int = 8
) -> MHAKVCache:
    pool = MHAKVCache(
        num_kv_heads=heads,
        num_layers=layers,
        head_dim=dim,
        num_pages=pages,
        page_size=page_size,
        dtype=torch.float32,
        device=CPU,
    )
    pool._kv_buffer.fill_(-1.0)
    return pool


def rows(n: int, heads: int = 2, dim: int = 8, start: float = 0.0) -> torch.Tensor:
    return torch.arange(n * heads * dim, dtype=torch.float32).view(n, heads, dim) + start


def test_one_buffer_holds_keys_and_values_of_all_layers() -> None:
    pool = make_pool()
    assert isinstance(pool, BaseKVCachePool)
    assert pool._kv_buffer.shape == (2, 3, 5, 4, 2, 8)
    assert pool._kv_buffer.is_contiguous()
    assert (pool.num_layers, pool.dtype, pool.device) == (3, torch.float32, CPU)


@pytest.mark.parametrize("page_size", [1, 3, 16])
def test_layer_views_share_the_buffer(page_size: int) -> None:
    pool = make_pool(page_size=page_size)
    for layer in range(3):
        for which, view in enumerate((pool.k_cache(layer), pool.v_cache(layer))):
            assert view.shape == (5, page_size, 2, 8)
            assert view.data_ptr() == pool._kv_buffer[which, layer].data_ptr()
            assert view.stride() == (page_size * 16, 16, 8, 1)
            view[2, page_size - 1] = 10.0 * layer + which
    for layer in range(3):
        for which in range(2):
            assert (pool._kv_buffer[which, layer, 2, page_size - 1] == 10 * layer + which).all()


def test_a_view_taken_before_a_store_sees_it() -> None:
    pool = make_pool()
    before = pool.k_cache(1)
    pool.store_kv(rows(1), rows(1, start=100), torch.tensor([6], dtype=torch.int32), 1)
    assert torch.equal(before[1, 2], rows(1)[0])


@pytest.mark.parametrize("slot_dtype", [torch.int32, torch.int64])
def test_store_puts_row_i_into_slot_out_loc_i_of_one_layer(slot_dtype: torch.dtype) -> None:
    pool = make_pool()
    want = pool._kv_buffer.clone()
    slots = [17, 0, 9]
    k, v = rows(3), rows(3, start=500)
    pool.store_kv(k, v, torch.tensor(slots, dtype=slot_dtype), 2)
    for i, slot in enumerate(slots):
        want[0, 2, slot // 4, slot % 4] = k[i]
        want[1, 2, slot // 4, slot % 4] = v[i]
    assert torch.equal(pool._kv_buffer, want)


def test_same_slot_in_two_layers_is_two_places() -> None:
    pool = make_pool()
    slot = torch.tensor([4], dtype=torch.int32)
    pool.store_kv(rows(1, start=1), rows(1, start=2), slot, 0)
    pool.store_kv(rows(1, start=3), rows(1, start=4), slot, 1)
    got = [float(pool._kv_buffer[w, layer, 1, 0, 0, 0]) for layer in (0, 1) for w in (0, 1)]
    assert got == [1.0, 2.0, 3.0, 4.0]


def test_store_takes_slices_of_a_wider_tensor() -> None:
    """q, k and v come as slices of one projection: rows are not contiguous with each other."""
    pool, want = make_pool(), make_pool()
    qkv = torch.arange(3 * 64, dtype=torch.float32).view(3, 64)
    k, v = qkv[:, 16:32].view(3, 2, 8), qkv[:, 40:56].view(3, 2, 8)
    slots = torch.tensor([1, 2, 3], dtype=torch.int32)
    pool.store_kv(k, v, slots, 0)
    want.store_kv(k.contiguous(), v.contiguous(), slots, 0)
    assert torch.equal(pool._kv_buffer, want._kv_buffer)
    assert torch.equal(pool._kv_buffer[1, 0, 0, 1], v[0])


def test_store_of_nothing_changes_nothing() -> None:
    pool = make_pool()
    pool.store_kv(rows(0), rows(0), torch.empty(0, dtype=torch.int32), 0)
    assert (pool._kv_buffer == -1).all()


@pytest.mark.parametrize(
    ("k", "v", "slots"),
    [
        (rows(2), rows(2), [0]),
        (rows(2), rows(1), [0, 1]),
        (rows(1, dim=4), rows(1, dim=4), [0]),
        (rows(1, heads=1), rows(1, heads=1), [0]),
        (rows(1).transpose(1, 2), rows(1).transpose(1, 2), [0]),
        (rows(1), rows(1), [20]),
        (rows(1), rows(1), [-1]),
    ],
    ids=["fewer-slots", "fewer-values", "head-dim", "heads", "swapped", "past-the-end", "negative"],
)
def test_store_refuses_what_does_not_fit(
    k: torch.Tensor, v: torch.Tensor, slots: list[int]
) -> None:
    pool = make_pool()
    with pytest.raises(REFUSALS):
        pool.store_kv(k, v, torch.tensor(slots, dtype=torch.int32), 0)
    assert (pool._kv_buffer == -1).all()


def test_create_kvcache_pool_reads_the_model_config() -> None:
    from types import SimpleNamespace

    from minisgl_lite.kvcache import create_kvcache_pool

    config = SimpleNamespace(num_kv_heads=2, num_layers=3, head_dim=8)
    pool = create_kvcache_pool(
        model_config=config, num_pages=6, page_size=2, dtype=torch.bfloat16, device=CPU
    )
    assert pool._kv_buffer.shape == (2, 3, 6, 2, 2, 8)
    assert pool.dtype == torch.bfloat16


@pytest.mark.parametrize("layer", [-1, 99])
def test_store_refuses_a_layer_that_is_not_there(layer: int) -> None:
    pool = make_pool()
    with pytest.raises(ValueError, match=f"layer_id {layer} is not in this pool"):
        pool.store_kv(rows(1), rows(1), torch.tensor([0], dtype=torch.int32), layer)
    assert (pool._kv_buffer == -1).all()
