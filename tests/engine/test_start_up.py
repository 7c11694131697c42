from __future__ import annotations

import pytest
import torch
from helpers.tiny import make_llm

from minisgl_lite.core import Batch, Req, SamplingParams
from minisgl_lite.engine.config import DEFAULT_CPU_TOKENS
from minisgl_lite.engine.graph import GraphRunner, make_dummy_req
from minisgl_lite.engine.scripted import ScriptedEngine
from minisgl_lite.kvcache.naive_cache import NaiveCacheHandle
from minisgl_lite.scheduler.table import TableManager


@pytest.mark.parametrize(
    ("num_pages", "page_size", "max_seq_len", "width"),
    [
        (16, 1, None, 32),  # 16 slots, rounded up to 32
        (64, 1, None, 64),
        (11, 3, None, 96),  # 33 tokens: the next multiple of 32 and of 3
        (4, 48, 100, 192),  # of 32 and of 48
        (8, 16, 40, 64),
        (2, 256, 300, 512),
    ],
)
def test_page_table_shape_and_content(
    num_pages: int, page_size: int, max_seq_len: int | None, width: int
) -> None:
    rows = 5
    engine = ScriptedEngine(num_pages, page_size, max_running_req=rows, max_seq_len=max_seq_len)
    table = engine.page_table
    assert table.shape == (rows + 1, width) and table.dtype == torch.int32
    assert width % 32 == 0 and width % page_size == 0
    assert (table[:rows] == 0).all()
    assert (table[rows] == num_pages * page_size).all()
    assert engine.max_seq_len == min(max_seq_len or num_pages * page_size, num_pages * page_size)
    token_pool = TableManager(rows, table).token_pool
    assert token_pool.shape == table.shape and token_pool.dtype == torch.int32
    assert (token_pool == 0).all()


def test_the_pool_has_a_dummy_page_that_the_scheduler_never_sees() -> None:
    engine = ScriptedEngine(6, 4)
    assert engine.kv_cache._kv_buffer.shape[2] == 7
    assert engine.num_pages == 6


def test_the_dummy_request() -> None:
    dummy = make_dummy_req(5)
    assert (dummy.table_idx, dummy.uid, dummy.cached_len, dummy.device_len) == (5, -1, 0, 1)
    assert dummy.input_ids.tolist() == [0]
    assert dummy.extend_len == 1


@pytest.mark.parametrize(
    ("page_size", "num_pages", "longest", "max_seq_len", "width"),
    [
        (4, 24, None, 96, 96),
        (4, 1000, None, 512, 512),  # the model's context
        (3, 50, None, 150, 192),
        (16, 40, 100, 100, 128),
    ],
)
def test_an_engine_with_a_model_starts_the_same_way(
    page_size: int, num_pages: int, longest: int | None, max_seq_len: int, width: int
) -> None:
    sizes = {"page_size": page_size, "num_pages": num_pages, "max_running_req": 3}
    with make_llm(**sizes, max_seq_len_override=longest) as llm:
        engine = llm.engine
        assert engine.kv_cache._kv_buffer.shape == (2, 2, num_pages + 1, page_size, 2, 8)
        assert engine.max_seq_len == max_seq_len
        assert engine.page_table.shape == (4, width)
        assert engine.page_table.dtype == torch.int32
        assert (engine.page_table[:3] == 0).all()
        assert (engine.page_table[3] == num_pages * page_size).all()
        assert llm.table_manager.token_pool.shape == (4, width)
        assert llm.cache_manager.free_slots.tolist() == [i * page_size for i in range(num_pages)]
        dummy = engine.dummy_req
        assert (dummy.table_idx, dummy.uid, dummy.input_ids.tolist()) == (3, -1, [0])


def test_without_a_number_of_pages_a_cpu_gets_a_stated_default() -> None:
    with make_llm(page_size=16, num_pages=None) as llm:
        assert llm.engine.num_pages == DEFAULT_CPU_TOKENS // 16 == 512


@pytest.mark.parametrize(
    ("sizes", "reqs", "phase", "padded"),
    [
        ((), 3, "decode", 3),
        (None, 3, "decode", 3),
        ((4,), 5, "decode", 5),
        ((4,), 4, "decode", 4),
        ((8, 1, 4), 2, "decode", 4),
        ((8, 1, 4), 5, "decode", 8),
        ((8,), 3, "prefill", 3),
    ],
)
def test_pad_batch(sizes: tuple[int, ...] | None, reqs: int, phase: str, padded: int) -> None:
    dummy = make_dummy_req(5)
    runner = GraphRunner(sizes, dummy)
    params = SamplingParams()
    batch = Batch(
        [
            Req(torch.tensor([1], dtype=torch.int32), i, 0, 2, i, params, NaiveCacheHandle())
            for i in range(reqs)
        ],
        phase,
    )
    runner.pad_batch(batch)
    assert batch.size == reqs and batch.padded_size == padded
    assert batch.padded_reqs == batch.reqs + [dummy] * (padded - reqs)
    assert batch.padded_reqs is not batch.reqs
    assert runner.can_use_cuda_graph(batch) == (phase == "decode" and reqs <= max(sizes or [0]))
