"""One ragged batch for every backend: the answer must be float64's, and the pool must hold k and v.

Prefill and decode, partial hits, padding with the dummy, two layers, NaN in all that nobody owns.
The page table is overwritten between preparing and running, as a later step may.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from minisgl_lite.attention import create_attention_backend
from minisgl_lite.attention.base import BaseAttnBackend
from minisgl_lite.core import Batch, Context, Req, SamplingParams, use_ctx
from minisgl_lite.engine.graph import make_dummy_req
from minisgl_lite.engine.tables import make_page_table
from minisgl_lite.kernel.paged import paged_attention
from minisgl_lite.kvcache import MHAKVCache
from minisgl_lite.kvcache.naive_cache import NaiveCacheHandle
from minisgl_lite.models import ModelConfig, RotaryConfig
from tests.kernel.pages import TOLERANCE

CPU = torch.device("cpu")
LENGTHS = {
    "prefill": [(0, 9), (4, 5), (8, 21), (16, 17), (0, 1), (6, 40)],
    "decode": [(0, 1), (3, 4), (4, 5), (15, 16), (16, 17), (39, 40)],
}
"""(cached_len, device_len) of each request."""


def model_config(heads: int, kv_heads: int, head_dim: int) -> ModelConfig:
    rotary = RotaryConfig(head_dim, head_dim, 4096, 10000.0, None)
    return ModelConfig(
        num_layers=2,
        num_qo_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        hidden_size=heads * head_dim,
        vocab_size=32,
        intermediate_size=32,
        rms_norm_eps=1e-5,
        rotary_config=rotary,
        hidden_act="silu",
        tie_word_embeddings=False,
        model_type="llama",
        architectures=("LlamaForCausalLM",),
    )


def make_req(row: int, cached_len: int, device_len: int) -> Req:
    return Req(
        input_ids=torch.zeros(device_len, dtype=torch.int32),
        table_idx=row,
        cached_len=cached_len,
        output_len=4,
        uid=row,
        sampling_params=SamplingParams(),
        cache_handle=NaiveCacheHandle(),
    )


@dataclass
class BackendWorld:
    """A context whose table rows point at shuffled pages that hold a random history."""

    ctx: Context
    config: ModelConfig
    reqs: list[Req]
    dummy: Req

    def create(self, backend: str) -> BaseAttnBackend:
        with use_ctx(self.ctx):
            return create_attention_backend(backend, self.config)

    def batch(self, phase: str, dummies: int = 0) -> Batch:
        batch = Batch(reqs=self.reqs, phase=phase)  # type: ignore[arg-type]
        batch.padded_reqs = self.reqs + [self.dummy] * dummies
        table = self.ctx.page_table
        batch.out_loc = torch.cat(
            [table[r.table_idx, r.cached_len : r.device_len] for r in batch.padded_reqs]
        )
        return batch


def make_world(
    lengths: Sequence[tuple[int, int]],
    *,
    page_size: int,
    dtype: torch.dtype = torch.float32,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 64,
    device: torch.device = CPU,
) -> BackendWorld:
    pages_of = [-(-total // page_size) for _, total in lengths]
    num_pages = sum(pages_of) + 1
    ctx = Context(page_size)
    with use_ctx(ctx):
        ctx.kv_cache = pool = MHAKVCache(
            kv_heads, 2, head_dim, num_pages + 1, page_size, dtype, device
        )
    pool._kv_buffer.fill_(float("nan"))
    longest = max(total for _, total in lengths)
    ctx.page_table = make_page_table(len(lengths), longest, num_pages, page_size, device)
    order = torch.randperm(num_pages, generator=torch.Generator().manual_seed(0)).tolist()
    reqs = []
    for row, (cached_len, device_len) in enumerate(lengths):
        pages = [order.pop() for _ in range(pages_of[row])]
        slots = [page * page_size + offset for page in pages for offset in range(page_size)]
        ctx.page_table[row, : len(slots)] = torch.tensor(slots, dtype=torch.int32)
        flat = pool._kv_buffer.view(2, 2, -1, kv_heads, head_dim)
        history = torch.randn(2, 2, cached_len, kv_heads, head_dim).to(dtype)
        flat[:, :, slots[:cached_len]] = history.to(device)
        reqs.append(make_req(row, cached_len, device_len))
    return BackendWorld(
        ctx, model_config(heads, kv_heads, head_dim), reqs, make_dummy_req(len(lengths))
    )


def check_backend(backend: str, phase: str, *, dummies: int = 0, **world: Any) -> BaseAttnBackend:
    """Run the ragged batch through ``backend`` in both layers and compare; returns the backend."""
    w = make_world(LENGTHS[phase], **world)
    made = w.create(backend)
    batch = w.batch(phase, dummies)
    table = w.ctx.page_table.clone()
    with use_ctx(w.ctx):
        made.prepare_metadata(batch)
    w.ctx.page_table.fill_(0)
    for layer_id in (1, 0):
        _check_layer(w, made, batch, table, layer_id)
    last = batch.attn_metadata.get_last_indices(batch.padded_size)
    ends = torch.tensor([r.extend_len for r in batch.padded_reqs]).cumsum(0) - 1
    assert last.tolist() == ends.tolist()
    return made


def _check_layer(
    w: BackendWorld, backend: BaseAttnBackend, batch: Batch, table: torch.Tensor, layer_id: int
) -> None:
    config, pool = w.config, w.ctx.kv_cache
    dtype, tokens = pool.dtype, len(batch.out_loc)
    q = torch.randn(tokens, config.num_qo_heads, config.head_dim).to(dtype)
    kv = torch.randn(tokens, 2 * config.num_kv_heads, config.head_dim).to(dtype)
    k, v = kv.chunk(2, dim=1)  # strided, as the layer cuts them out of qkv
    with use_ctx(w.ctx), torch.inference_mode():
        out = backend.forward(q, k, v, layer_id, batch)
    assert out.shape == q.shape and out.dtype == dtype

    k_cache, v_cache = pool.k_cache(layer_id), pool.v_cache(layer_id)
    real = slice(sum(r.extend_len for r in batch.reqs))  # the dummies overwrite each other
    slots = batch.out_loc.long()[real]
    assert torch.equal(k_cache.flatten(0, 1)[slots], k[real])
    assert torch.equal(v_cache.flatten(0, 1)[slots], v[real])
    size = w.ctx.page_size
    wanted = paged_attention(
        q.double()[real],
        k_cache.double(),
        v_cache.double(),
        table[: batch.size, ::size] // size,
        torch.tensor([r.device_len for r in batch.reqs], dtype=torch.int32),
        torch.tensor([0] + [r.extend_len for r in batch.reqs]).cumsum(0).int(),
        scale=config.head_dim**-0.5,
    )
    error = (out[real].double() - wanted).norm(dim=-1) / wanted.norm(dim=-1)
    assert float(error.nan_to_num(float("inf")).max()) < TOLERANCE[dtype]
