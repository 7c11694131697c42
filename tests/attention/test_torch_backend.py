"""The torch backend against dense attention in float64, on ragged batches over scattered pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from helpers.managers import ints

from minisgl_lite.attention import create_attention_backend
from minisgl_lite.core import Batch, Context, Req, SamplingParams, use_ctx
from minisgl_lite.kvcache.mha_pool import MHAKVCache
from minisgl_lite.kvcache.naive_cache import NaiveCacheHandle

LAYERS, HEADS, KV_HEADS, DIM = 2, 6, 2, 8
N_PAGES = 24


@dataclass
class Bench:
    """A pool, a table with scattered pages, and the dense K/V that each row's history holds."""

    ctx: Context
    batch: Batch
    k: torch.Tensor  # (T, H_kv, D), this step's
    v: torch.Tensor
    q: torch.Tensor  # (T, H_q, D)
    history: list[tuple[torch.Tensor, torch.Tensor]]  # per request: K, V of [0, cached_len)

    def run(self, layer: int) -> torch.Tensor:
        with use_ctx(self.ctx):
            return self.ctx.attn_backend.forward(self.q, self.k, self.v, layer, self.batch)


def make_bench(
    lengths: Sequence[tuple[int, int]], page_size: int, kv_heads: int = KV_HEADS, phase="prefill"
) -> Bench:
    """`lengths`: (cached_len, extend_len) per request."""
    torch.manual_seed(page_size + len(lengths))
    rows = len(lengths)
    pages = N_PAGES if page_size < 16 else 12
    ctx = Context(page_size=page_size)
    ctx.page_table = torch.zeros((rows + 1, 128 * page_size), dtype=torch.int32)
    with use_ctx(ctx):
        device = torch.device("cpu")
        ctx.kv_cache = MHAKVCache(
            kv_heads, LAYERS, DIM, pages + 1, page_size, torch.float32, device
        )
        config = SimpleNamespace(
            num_qo_heads=HEADS, num_kv_heads=kv_heads, head_dim=DIM, num_layers=LAYERS
        )
        ctx.attn_backend = create_attention_backend("torch", config)
    ctx.kv_cache._kv_buffer.fill_(float("nan"))
    order = torch.randperm(pages).tolist()
    reqs, history, out_loc, positions = [], [], [], []
    for row, (cached, extend) in enumerate(lengths):
        total = cached + extend
        starts = [order.pop() * page_size for _ in range(-(-total // page_size))]
        slots = [start + i for start in starts for i in range(page_size)]
        ctx.page_table[row, : len(slots)] = ints(slots)
        old = torch.randn(2, cached, kv_heads, DIM)
        with use_ctx(ctx):
            for layer in range(LAYERS):
                ctx.kv_cache.store_kv(old[0] + layer, old[1] + layer, ints(slots[:cached]), layer)
        history.append((old[0], old[1]))
        out_loc += slots[cached:total]
        positions += range(cached, total)
        req = Req(ints([0] * total), row, cached, 4, row, SamplingParams(), NaiveCacheHandle())
        reqs.append(req)
    batch = Batch(reqs=reqs, phase=phase)
    batch.padded_reqs = reqs
    batch.out_loc, batch.positions = ints(out_loc), ints(positions)
    with use_ctx(ctx):
        ctx.attn_backend.prepare_metadata(batch)
    total = len(out_loc)
    k, v = torch.randn(2, total, kv_heads, DIM)
    return Bench(ctx, batch, k, v, torch.randn(total, HEADS, DIM), history)


def dense(bench: Bench, layer: int) -> torch.Tensor:
    """Softmax attention request by request, head by head, in float64."""
    out, at = [], 0
    for req, (old_k, old_v) in zip(bench.batch.reqs, bench.history, strict=True):
        n = req.extend_len
        k = torch.cat([old_k + layer, bench.k[at : at + n]]).double()  # (device_len, H_kv, D)
        v = torch.cat([old_v + layer, bench.v[at : at + n]]).double()
        for i in range(n):
            seen = req.cached_len + i + 1
            heads = []
            for head in range(HEADS):
                kv = head * k.shape[1] // HEADS
                scores = k[:seen, kv] @ bench.q[at + i, head].double() / DIM**0.5
                heads.append(scores.softmax(0) @ v[:seen, kv])
            out.append(torch.stack(heads))
        at += n
    return torch.stack(out)


RAGGED = {
    "one": [(0, 1)],
    "fresh": [(0, 5), (0, 1), (0, 9)],
    "hits": [(4, 3), (0, 7), (8, 1), (5, 4)],
    "decode": [(3, 1), (12, 1), (1, 1), (8, 1)],
    "borders": [(4, 4), (3, 1), (7, 1), (0, 8), (8, 8)],
}


@pytest.mark.parametrize("page_size", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("lengths", RAGGED.values(), ids=RAGGED)
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_ragged_batches_equal_dense_attention(
    page_size: int, lengths: list[tuple[int, int]], kv_heads: int
) -> None:
    if sum(-(-sum(pair) // page_size) for pair in lengths) > N_PAGES:
        lengths = lengths[:3]
    decode = all(extend == 1 for _, extend in lengths)
    bench = make_bench(lengths, page_size, kv_heads, "decode" if decode else "prefill")
    for layer in range(LAYERS):
        got = bench.run(layer)
        assert got.shape == bench.q.shape and got.dtype == torch.float32
        assert (got.double() - dense(bench, layer)).abs().max() < 1e-5


def test_new_keys_are_stored_before_they_are_read() -> None:
    bench = make_bench([(4, 3), (0, 2)], 4)
    bench.run(1)
    slots = bench.batch.out_loc.long()
    assert torch.equal(bench.ctx.kv_cache.k_cache(1).flatten(0, 1)[slots], bench.k)
    assert torch.equal(bench.ctx.kv_cache.v_cache(1).flatten(0, 1)[slots], bench.v)
    assert bench.ctx.kv_cache.k_cache(0).flatten(0, 1)[slots].isnan().all()


def test_nothing_but_out_loc_is_written() -> None:
    bench = make_bench([(4, 3), (0, 2)], 4)
    before = bench.ctx.kv_cache._kv_buffer.clone()
    bench.run(0)
    changed = (
        (bench.ctx.kv_cache._kv_buffer.nan_to_num(-7) != before.nan_to_num(-7)).any(-1).any(-1)
    )
    places = changed.flatten(2)[0, 0].nonzero().flatten().tolist()
    assert places == sorted(bench.batch.out_loc.tolist())
    assert not changed[:, 1].any()


def test_metadata_are_values_that_later_steps_do_not_change() -> None:
    bench, same = make_bench([(4, 3), (3, 2)], 4), make_bench([(4, 3), (3, 2)], 4)
    bench.ctx.page_table.fill_(0)  # the rows get new owners
    for req in bench.batch.reqs:
        req.complete_one()
    assert torch.equal(bench.run(0), same.run(0))


@pytest.mark.parametrize("page_size", [1, 4])
def test_metadata_hold_page_ids_and_lengths(page_size: int) -> None:
    bench = make_bench([(4, 3), (0, 2), (5, 1)], page_size)
    meta = bench.batch.attn_metadata
    assert meta.cache_seqlens.tolist() == [7, 2, 6]
    assert meta.cu_seqlens_q.tolist() == [0, 3, 5, 6]
    assert meta.cu_seqlens_k.tolist() == [0, 7, 9, 15]
    assert (meta.max_seqlen_q, meta.max_seqlen_k) == (3, 7)
    assert meta.get_last_indices(3).tolist() == [2, 4, 5]
    for tensor in (meta.cache_seqlens, meta.cu_seqlens_q, meta.cu_seqlens_k, meta.page_table):
        assert tensor.dtype == torch.int32
    table = bench.ctx.page_table[:3, :7:page_size] // page_size
    assert torch.equal(meta.page_table, table)


def test_unknown_backend_is_refused_with_what_is_there() -> None:
    bench = make_bench([(0, 1)], 4)
    with use_ctx(bench.ctx), pytest.raises(ValueError, match=r"nope.*torch") as error:
        create_attention_backend("nope", SimpleNamespace(head_dim=8))
    assert "\n" not in str(error.value)
