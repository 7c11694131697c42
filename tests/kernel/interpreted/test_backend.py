"""The triton backend as the engine drives it, with kernels interpreted on a CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from minisgl_lite.attention.paged import PagedMetadata
from minisgl_lite.attention.triton_paged import TritonAttnBackend
from minisgl_lite.core import SamplingParams, use_ctx
from minisgl_lite.engine.graph import Graph
from minisgl_lite.hooks import Listener
from minisgl_lite.llm import LLM
from tests.attention.parity import LENGTHS, check_backend, make_world
from tests.kernel.pages import TOLERANCE

PROMPTS = [[1, 2, 3, 4, 5], [1, 2, 3, 4, 9, 8], [7]]
TOKENS = SamplingParams(max_tokens=3, ignore_eos=True)


@pytest.mark.parametrize("page_size", [1, 3, 4, 16, 256])
@pytest.mark.parametrize("phase", LENGTHS)
def test_ragged_batches(phase: str, page_size: int) -> None:
    backend = check_backend("triton", phase, page_size=page_size, dummies=2, head_dim=16)
    assert isinstance(backend, TritonAttnBackend)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("heads", [(9, 3, 64), (4, 2, 128)])
def test_ragged_batches_of_real_shapes(dtype: torch.dtype, heads: tuple[int, int, int]) -> None:
    for phase in LENGTHS:
        check_backend(
            "triton",
            phase,
            page_size=16,
            dtype=dtype,
            heads=heads[0],
            kv_heads=heads[1],
            head_dim=heads[2],
        )


def make_llm(backend: str, page_size: int, graph_bs: list[int] | None = None) -> LLM:
    return LLM(
        "tiny",
        page_size=page_size,
        num_pages=96 // page_size,
        max_running_req=4,
        attention_backend=backend,
        cuda_graph_bs=graph_bs,
    )


def tokens_of(llm: LLM) -> list[list[int]]:
    results = llm.generate(PROMPTS, TOKENS)
    assert [result["error"] for result in results] == [None] * 3
    return [result["token_ids"] for result in results]


@pytest.mark.parametrize(
    ("backend", "page_size"), [("triton", 1), ("triton", 3), ("torch,triton", 4)]
)
def test_the_engine_says_the_same(backend: str, page_size: int) -> None:
    assert tokens_of(make_llm(backend, page_size)) == tokens_of(make_llm("torch", page_size))


# ---- capture and replay --------------------------------------------------------------------------


class Recording:
    """Stands for a CUDA graph: what was recorded runs again, at the same addresses.

    What a step reads from the host was fixed when it was recorded, as in a real graph: the batch it
    sees is that of the recording, and its kernels' grids are.
    """

    def __init__(self, step: Callable[[], None]) -> None:
        self.step = step
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        self.step()


def capture(llm: LLM) -> dict[int, Recording]:
    """Capture the LLM's decode steps as recordings, in order of capture."""
    engine, recordings = llm.engine, []

    def record(step: Callable[[], None]) -> Graph:
        batch = engine.ctx.batch

        def again() -> None:
            running, engine.ctx._batch = engine.ctx._batch, batch
            try:
                step()
            finally:
                engine.ctx._batch = running

        step()
        recordings.append(Recording(again))
        return recordings[-1]

    with use_ctx(engine.ctx):
        engine.graph_runner.capture(
            engine.model,
            engine.attn_backend,
            engine.max_seq_len,
            engine.sampler.vocab_size,
            record,
        )
    return dict(zip(reversed(engine.graph_runner.graph_bs_list), recordings, strict=True))


def test_replayed_steps_say_the_same() -> None:
    wanted = tokens_of(make_llm("torch", 4))
    llm = make_llm("triton", 4, [1, 4])
    recordings = capture(llm)
    assert list(recordings) == [4, 1]  # the largest first
    assert tokens_of(llm) == wanted
    assert recordings[4].replays == 2  # of three tokens, the first comes from the prefill
    assert llm.generate(PROMPTS[:1], TOKENS)[0]["token_ids"] == wanted[0]
    assert recordings[1].replays == 2


def test_capturing_reads_and_writes_the_dummy_page_alone() -> None:
    llm = make_llm("triton", 4, [2])
    pool = llm.engine.kv_cache._kv_buffer
    pool.fill_(float("nan"))
    capture(llm)
    assert pool[:, :, :-1].isnan().all()
    assert not pool[:, :, -1, 0].isnan().any()
    assert llm.engine.graph_runner.buffer.logits.isfinite().all()


def test_a_watched_step_runs_eagerly() -> None:
    wanted = tokens_of(make_llm("torch", 4))
    llm = make_llm("triton", 4, [4])
    recordings = capture(llm)
    listener = Listener()
    llm.hooks.attach(listener, order=1)
    assert tokens_of(llm) == wanted and recordings[4].replays == 0
    llm.hooks.detach(listener)
    assert tokens_of(llm) == wanted and recordings[4].replays == 2


def test_destroyed_graphs_leave_padding() -> None:
    wanted = tokens_of(make_llm("torch", 4))
    llm = make_llm("triton", 4, [4])
    recordings = capture(llm)
    llm.engine.graph_runner.destroy_cuda_graphs()
    assert tokens_of(llm) == wanted and recordings[4].replays == 0
    llm.close()


def test_captured_metadata_stand_at_fixed_addresses() -> None:
    w = make_world(LENGTHS["decode"], page_size=3)
    backend = w.create("triton")
    backend.init_capture_graph(max_seq_len=100, bs_list=[8, 2])
    captured = w.batch("decode", dummies=2)
    backend.prepare_for_capture(captured)
    seen = captured.attn_metadata
    assert isinstance(seen, PagedMetadata)
    assert seen.page_table.shape == (8, 34)  # the last of 100 tokens needs a page too
    assert (seen.max_seqlen_q, seen.max_seqlen_k) == (1, 102)
    address = seen.page_table.data_ptr()
    for dummies in (2, 2):
        batch = w.batch("decode", dummies)
        with use_ctx(w.ctx):
            backend.prepare_metadata(batch)
            own = batch.attn_metadata
            assert isinstance(own, PagedMetadata)
            backend.prepare_for_replay(batch)
        assert seen.page_table.data_ptr() == address
        assert torch.equal(seen.page_table[:, : own.page_table.shape[1]], own.page_table)
        assert torch.equal(seen.cache_seqlens, own.cache_seqlens)
        assert torch.equal(seen.cu_seqlens_k, own.cu_seqlens_k)
        assert torch.equal(seen.cu_seqlens_q, own.cu_seqlens_q)
