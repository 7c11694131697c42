"""The flash-attn backend, on a CPU through a stand-in. flash-attn itself runs in the GPU check."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from minisgl_lite.attention import fa
from minisgl_lite.attention.base import Place
from minisgl_lite.attention.fa import FAMetadata, FlashAttentionBackend
from minisgl_lite.attention.paged import PagedMetadata
from minisgl_lite.core import use_ctx
from tests.attention import flash_attn_signatures
from tests.attention.flash_attn_standin import FlashAttnStandIn
from tests.attention.parity import LENGTHS, check_backend, make_world

CUDA = torch.device("cuda")
GOOD = Place(CUDA, (8, 0), torch.float16, 16, 64)


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> Iterator[FlashAttnStandIn]:
    """flash-attn as if installed, and this CPU as if it were a GPU that it takes."""
    double = FlashAttnStandIn()
    monkeypatch.setitem(sys.modules, "flash_attn", double.module())
    monkeypatch.setattr(FlashAttentionBackend, "why_not", classmethod(lambda cls, place: None))
    yield double


@pytest.mark.parametrize("page_size", [1, 3, 4, 16, 256, 512])
@pytest.mark.parametrize("phase", LENGTHS)
def test_every_page_size(standin: FlashAttnStandIn, phase: str, page_size: int) -> None:
    check_backend("fa", phase, page_size=page_size, dtype=torch.float16, dummies=2)
    if page_size % 256 != 0:
        assert set(standin.calls) == {"flash_attn_varlen_func"}
    else:
        paged = {"decode": "flash_attn_with_kvcache", "prefill": "flash_attn_varlen_func"}
        assert set(standin.calls) == {paged[phase]}
    assert len(standin.calls) == 2  # one a layer


@pytest.mark.parametrize("page_size", [4, 256])
def test_bf16_and_groups(standin: FlashAttnStandIn, page_size: int) -> None:
    for heads, kv_heads in ((3, 3), (9, 3), (8, 1)):
        check_backend(
            "fa",
            "prefill",
            page_size=page_size,
            dtype=torch.bfloat16,
            heads=heads,
            kv_heads=kv_heads,
        )


def test_metadata_of_the_gather(standin: FlashAttnStandIn) -> None:
    w = make_world([(0, 3), (4, 6)], page_size=4, dtype=torch.float16)
    backend, batch = w.create("fa"), w.batch("prefill")
    backend.prepare_metadata(batch)
    metadata = batch.attn_metadata
    assert isinstance(metadata, FAMetadata) and metadata.gathered is not None
    table = w.ctx.page_table
    assert metadata.gathered.tolist() == table[0, :3].tolist() + table[1, :6].tolist()
    assert metadata.cu_seqlens_q.tolist() == [0, 3, 5]
    assert metadata.cu_seqlens_k.tolist() == [0, 3, 9]
    assert metadata.cache_seqlens.tolist() == [3, 6]
    assert (metadata.max_seqlen_q, metadata.max_seqlen_k) == (3, 6)
    assert metadata.page_table.tolist() == [
        [int(table[0, 0]) // 4, int(table[0, 4]) // 4],
        [int(table[1, 0]) // 4, int(table[1, 4]) // 4],
    ]


def test_a_gather_cannot_be_captured(standin: FlashAttnStandIn) -> None:
    backend = make_world([(0, 3)], page_size=16, dtype=torch.float16).create("fa")
    with pytest.raises(ValueError, match=r"page_size 16.*multiple of 256.*'fa,triton'"):
        backend.init_capture_graph(max_seq_len=64, bs_list=[1])


def test_whole_pages_can_be_captured(standin: FlashAttnStandIn) -> None:
    w = make_world(LENGTHS["decode"], page_size=256, dtype=torch.float16)
    backend, batch = w.create("fa"), w.batch("decode", dummies=2)
    backend.init_capture_graph(max_seq_len=300, bs_list=[4, 8])
    with use_ctx(w.ctx):
        backend.prepare_metadata(batch)
        own = batch.attn_metadata
        backend.prepare_for_replay(batch)
        captured = w.batch("decode", dummies=2)
        backend.prepare_for_capture(captured)
    seen = captured.attn_metadata
    assert isinstance(own, PagedMetadata) and isinstance(seen, PagedMetadata)
    assert torch.equal(seen.cache_seqlens, own.cache_seqlens)
    assert torch.equal(seen.page_table[:, : own.page_table.shape[1]], own.page_table)
    assert seen.page_table.shape == (8, 2)  # 300 tokens need two pages


# ---- what it refuses ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (GOOD._replace(device=torch.device("cpu"), capability=None), "needs an NVIDIA GPU.*on cpu"),
        (GOOD._replace(capability=(7, 5)), "needs compute capability 8.0, and this GPU has 7.5"),
        (GOOD._replace(dtype=torch.float32), "float16 and bfloat16, not torch.float32"),
        (GOOD._replace(head_dim=20), "head_dim that 8 divides, at most 256, not 20"),
        (GOOD._replace(head_dim=264), "at most 256, not 264"),
    ],
)
def test_what_is_missing_is_named(place: Place, words: str) -> None:
    reason = FlashAttentionBackend.why_not(place)
    assert reason is not None and re.search(words, reason), reason


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fa, "find_spec", lambda name: None)
    reason = FlashAttentionBackend.why_not(GOOD)
    assert reason == "the package flash-attn is not installed (pip install 'minisgl-lite[cuda]')"
    monkeypatch.setattr(fa, "find_spec", lambda name: object())
    assert FlashAttentionBackend.why_not(GOOD) is None


@pytest.mark.skipif(find_spec("flash_attn") is not None, reason="flash-attn is installed")
def test_the_backend_itself_says_which_extra_it_needs() -> None:
    w = make_world([(0, 3)], page_size=16, dtype=torch.float16)
    with use_ctx(w.ctx), pytest.raises(ImportError, match=r"flash_attn.*minisgl-lite\[cuda\]"):
        FlashAttentionBackend(w.config)


# ---- the stand-in is as strict as what it stands for -------------------------------------------


def call_varlen(double: FlashAttnStandIn, **changes: object) -> torch.Tensor:
    bounds = torch.tensor([0, 2], dtype=torch.int32)
    kv = torch.randn(1, 256, 1, 64).half()
    args: dict[str, object] = {
        "q": torch.randn(2, 2, 64).half(),
        "k": kv,
        "v": kv,
        "cu_seqlens_q": bounds,
        "cu_seqlens_k": bounds,
        "max_seqlen_q": 2,
        "max_seqlen_k": 2,
        "causal": True,
        "block_table": torch.zeros((1, 1), dtype=torch.int32),
    }
    return double.flash_attn_varlen_func(**(args | changes))  # type: ignore[arg-type]


two_heads = torch.zeros(1, 256, 2, 64).half()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"k": torch.zeros(16, 16, 1, 64).half()}, "same shape"),
        ({"q": torch.zeros(2, 2, 64)}, "fp16 and bf16"),
        ({"block_table": torch.zeros((1, 1), dtype=torch.int64)}, "int32"),
        ({"cu_seqlens_q": torch.tensor([0, 2])}, "int32"),
        ({"cu_seqlens_k": torch.tensor([0, 9, 2], dtype=torch.int32)[::2]}, "contiguous"),
        ({"q": torch.zeros(2, 2, 128).half()[..., ::2]}, "contiguous last dimension"),
        ({"q": torch.zeros(2, 3, 64).half(), "k": two_heads, "v": two_heads}, "must divide"),
        ({"causal": False}, "causal"),
        ({"dropout_p": 0.1}, "not what our backend passes"),
        ({"max_seqlen_q": 1}, "max_seqlen_q"),
    ],
)
def test_the_stand_in_refuses(changes: dict[str, object], words: str) -> None:
    call_varlen(FlashAttnStandIn())
    with pytest.raises(RuntimeError, match=words):
        call_varlen(FlashAttnStandIn(), **changes)


def test_the_stand_in_refuses_pages_of_16_and_old_gpus() -> None:
    small = torch.zeros(16, 16, 1, 64).half()
    with pytest.raises(RuntimeError, match="divisible by 256"):
        call_varlen(FlashAttnStandIn(), k=small, v=small)
    with pytest.raises(RuntimeError, match="Ampere"):
        call_varlen(FlashAttnStandIn(capability=(7, 5)))


@pytest.mark.parametrize("name", flash_attn_signatures.FUNCTIONS)
def test_the_stand_in_has_the_recorded_signatures(name: str) -> None:
    ours = flash_attn_signatures.signature_of(getattr(FlashAttnStandIn(), name))
    assert ours == flash_attn_signatures.recorded()[name]


@pytest.mark.skipif(find_spec("flash_attn") is None, reason="flash-attn is not installed")
def test_the_installed_package_has_the_recorded_signatures() -> None:
    """Parsed, not imported: its Python part alone is enough."""
    spec = find_spec("flash_attn")
    assert spec is not None and spec.origin is not None
    found = flash_attn_signatures.signatures_in(Path(spec.origin).parent)
    recorded = flash_attn_signatures.recorded()
    assert found == {name: recorded[name] for name in flash_attn_signatures.FUNCTIONS}
