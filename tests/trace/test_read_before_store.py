"""The sanitizer finds a backend that reads before it stores, whatever hooks the backend calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from minisgl_lite import LLM, SamplingParams
from minisgl_lite.attention import TorchAttnBackend
from minisgl_lite.core import Batch, get_global_ctx, use_ctx
from minisgl_lite.trace import KVSanitizer, KVSanitizerError
from minisgl_lite.trace.faults import Fault

PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [9, 8, 7]]
FIVE = SamplingParams(max_tokens=5, ignore_eos=True)


class ReadsFirst(TorchAttnBackend):
    """Reads, then stores by the engine's own ``store``, which tells that a read is to come."""

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        keep, self.store = self.store, lambda *args: None  # type: ignore[method-assign]
        out = super().forward(q, k, v, layer_id, batch)
        self.store = keep  # type: ignore[method-assign]
        self.store(k, v, layer_id, batch)
        return out


class ReadsFirstInDecode(ReadsFirst):
    def forward(self, *args: Any) -> torch.Tensor:
        batch: Batch = args[-1]
        forward = super().forward if batch.is_decode else super(ReadsFirst, self).forward
        return forward(*args)


class StoresKeysOnly(TorchAttnBackend):
    """K are stored before the read, V after it."""

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        former = self.kvcache.v_cache(layer_id).flatten(0, 1)[batch.out_loc.long()]
        keep, self.store = self.store, lambda *args: None  # type: ignore[method-assign]
        self.kvcache.store_kv(k.to(former.dtype), former, batch.out_loc, layer_id)
        out = super().forward(q, k, v, layer_id, batch)
        self.store = keep  # type: ignore[method-assign]
        self.store(k, v, layer_id, batch)
        return out


class SaysNothing(TorchAttnBackend):
    """Right, but calls the pool itself: no hook tells what it stores or reads."""

    @staticmethod
    def store(k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch) -> None:
        pool = get_global_ctx().kv_cache
        pool.store_kv(k.to(pool.dtype), v.to(pool.dtype), batch.out_loc, layer_id)


class SaysNothingAndReadsFirst(ReadsFirst, SaysNothing):
    pass


Make = Callable[..., tuple[LLM, KVSanitizer]]


@pytest.fixture
def watched() -> Iterator[Make]:
    """An LLM with another backend, and its sanitizer."""
    opened: list[LLM] = []

    def make(backend: type[TorchAttnBackend], **config: Any) -> tuple[LLM, KVSanitizer]:
        llm = LLM("tiny", num_pages=64, max_running_req=4, **({"page_size": 2} | config))
        opened.append(llm)
        llm.engine.kv_cache._kv_buffer.zero_()
        engine = llm.engine
        with use_ctx(engine.ctx):
            made = backend(engine.loaded.source.config)
        engine.ctx.attn_backend = engine.attn_backend = made
        return llm, KVSanitizer(llm)

    yield make
    for llm in opened:
        llm.close()


def first_fault(llm: LLM) -> Fault:
    with pytest.raises(KVSanitizerError) as caught:
        llm.generate(PROMPTS, FIVE)
    return caught.value.fault


@pytest.mark.parametrize("backend", [ReadsFirst, StoresKeysOnly, SaysNothingAndReadsFirst])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_swapped_order_is_reported(
    watched: Make, backend: type[TorchAttnBackend], dtype: torch.dtype
) -> None:
    fault = first_fault(watched(backend, dtype=dtype)[0])
    assert (fault.kind, fault.turn, fault.layer) == ("read-before-store", 1, 0)
    assert (fault.uid, fault.position, fault.slot) == (0, 6, 6)
    assert fault.text == (
        "step 1, layer 0: r0's position 6 was answered before its K/V were stored: the output is"
        " that of what slot 6 held before"
    )


def test_a_swapped_decode_step_is_reported(watched: Make) -> None:
    fault = first_fault(watched(ReadsFirstInDecode)[0])
    assert (fault.kind, fault.turn, fault.uid, fault.position) == ("read-before-store", 2, 0, 7)


def test_a_swapped_order_is_reported_in_each_layer_and_step_once(watched: Make) -> None:
    llm, sanitizer = watched(ReadsFirst)
    sanitizer.stop = False
    llm.generate(PROMPTS, FIVE)
    layers = llm.engine.kv_cache.num_layers
    assert [fault.kind for fault in sanitizer.faults] == ["read-before-store"] * layers * 5


@pytest.mark.parametrize("former", [float("nan"), float("inf"), 3e38], ids=str)
def test_a_former_content_without_number_hides_nothing(watched: Make, former: float) -> None:
    llm, _ = watched(ReadsFirst)
    llm.engine.kv_cache._kv_buffer.fill_(former)
    fault = first_fault(llm)
    assert (fault.kind, fault.found) == ("read-before-store", "no number")


def test_a_backend_that_says_what_it_reads_is_reported_once(watched: Make) -> None:
    class SaysSo(ReadsFirst):
        def forward(self, *args: Any) -> torch.Tensor:
            get_global_ctx().hooks.emit("on_attend", args[-2], args[-1])
            return super().forward(*args)

    llm, sanitizer = watched(SaysSo)
    sanitizer.stop = False
    llm.generate(PROMPTS, FIVE)
    layers = llm.engine.kv_cache.num_layers
    assert [fault.kind for fault in sanitizer.faults] == ["stale-read"] * layers * 5


@pytest.mark.parametrize(
    ("backend", "former"), [(TorchAttnBackend, 0.0), (SaysNothing, float("nan"))]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "config",
    [{}, {"overlap": True, "max_extend_tokens": 3, "cuda_graph_bs": [4]}, {"page_size": 48}],
    ids=str,
)
def test_a_right_order_is_no_fault(
    watched: Make,
    backend: type[TorchAttnBackend],
    dtype: torch.dtype,
    config: dict[str, Any],
    former: float,
) -> None:
    llm, sanitizer = watched(backend, dtype=dtype, **config)
    llm.engine.kv_cache._kv_buffer.fill_(former)
    for _ in range(2):
        llm.generate(PROMPTS, FIVE)
    assert sanitizer.faults == []


def test_a_backend_that_says_nothing_is_watched_all_the_same(watched: Make) -> None:
    """Its stores and reads are looked at when its attention is over."""
    llm, _ = watched(SaysNothing)
    llm.engine.kv_cache.store_kv = _one_slot_off(llm.engine.kv_cache.store_kv)
    fault = first_fault(llm)
    assert (fault.kind, fault.layer, fault.uid, fault.slot) == ("not-stored", 0, 0, 0)


def _one_slot_off(store: Callable[..., None]) -> Callable[..., None]:
    def wrong(k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int) -> None:
        store(k, v, out_loc + 1, layer_id)

    return wrong


def test_who_wraps_the_pool_after_the_sanitizer_is_heard_by_it_and_outlives_it(
    watched: Make,
) -> None:
    """As a profiler would: it calls what it found there, which is the sanitizer itself."""
    llm, sanitizer = watched(TorchAttnBackend)
    pool, calls = llm.engine.kv_cache, []
    inner = pool.store_kv

    def counts(*args: Any) -> None:
        calls.append(args[-1])
        inner(*args)

    pool.store_kv = counts  # type: ignore[method-assign]
    want = llm.generate(PROMPTS, FIVE)
    assert sanitizer.faults == [] and len(calls) == 5 * pool.num_layers
    sanitizer.detach()
    llm.cache_manager.reset()
    assert llm.generate(PROMPTS, FIVE) == want
    assert len(calls) == 10 * pool.num_layers
    with KVSanitizer(llm) as again:
        llm.generate(PROMPTS, FIVE)
    assert again.faults == [] and len(calls) == 15 * pool.num_layers
