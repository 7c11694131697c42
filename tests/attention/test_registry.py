from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from minisgl_lite import attention
from minisgl_lite.attention import (
    SUPPORTED_ATTENTION_BACKENDS,
    choose_attn_backend,
    create_attention_backend,
    validate_attn_backend,
)
from minisgl_lite.attention.base import BaseAttnBackend, HybridBackend, Place
from minisgl_lite.attention.fa import FlashAttentionBackend
from minisgl_lite.attention.torch_ref import TorchAttnBackend
from minisgl_lite.attention.triton_paged import TritonAttnBackend
from minisgl_lite.core import Batch, use_ctx
from minisgl_lite.kernel import attend
from tests.attention.parity import LENGTHS, check_backend, make_world

CUDA, CPU = torch.device("cuda"), torch.device("cpu")
FP16, BF16, FP32 = torch.float16, torch.bfloat16, torch.float32


def test_names() -> None:
    assert SUPPORTED_ATTENTION_BACKENDS.supported_names() == ["torch", "cpu", "triton", "fa"]


@pytest.mark.parametrize("name", ["torch", "triton", "fa", "auto", "fa,triton", "torch,torch"])
def test_allowed_names(name: str) -> None:
    assert validate_attn_backend(name) == name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("flash", "unknown attention backend 'flash'; known: torch, cpu, triton, fa"),
        ("", "unknown attention backend ''"),
        ("torch,", "unknown attention backend ''"),
        ("torch, triton", "unknown attention backend ' triton'"),
        ("auto,torch", "unknown attention backend 'auto'"),
        ("fa,triton,torch", "'fa,triton,torch' names 3 backends; one, or a pair 'prefill,decode'"),
    ],
)
def test_other_names_are_refused(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        validate_attn_backend(name)


def test_auto_may_be_forbidden() -> None:
    with pytest.raises(ValueError, match="unknown attention backend 'auto'"):
        validate_attn_backend("auto", allow_auto=False)


# ---- auto ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "with_fa", "without_fa"),
    [
        (Place(CPU, None, FP32, 16, 64), "cpu", "cpu"),
        (Place(CPU, None, FP32, 16, 8), "torch", "torch"),
        (Place(CPU, None, FP16, 16, 64), "torch", "torch"),
        (Place(CUDA, (9, 0), BF16, 256, 128), "fa", "triton"),
        (Place(CUDA, (8, 0), FP16, 512, 64), "fa", "triton"),
        (Place(CUDA, (9, 0), BF16, 16, 128), "triton", "triton"),  # flash-attn would gather
        (Place(CUDA, (9, 0), FP32, 256, 128), "triton", "triton"),
        (Place(CUDA, (9, 0), BF16, 256, 192), "fa", "torch"),
        (Place(CUDA, (9, 0), BF16, 16, 192), "torch", "torch"),
        (Place(CUDA, (7, 5), FP16, 256, 64), "torch,triton", "torch,triton"),
        (Place(CUDA, (7, 0), FP16, 16, 64), "torch", "torch"),
        (Place(CUDA, (9, 0), torch.float64, 16, 64), "torch", "torch"),
    ],
)
def test_auto_by_device_capability_dtype_and_page_size(
    place: Place, with_fa: str, without_fa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention.triton_paged, "triton_is_installed", lambda: True)
    monkeypatch.setattr(attend, "_compiled", lambda: object())
    for spec, chosen in ((object(), with_fa), (None, without_fa)):
        monkeypatch.setattr(attention.fa, "find_spec", lambda name, spec=spec: spec)
        assert choose_attn_backend(place) == chosen


def test_auto_without_triton_is_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention.triton_paged, "triton_is_installed", lambda: False)
    monkeypatch.setattr(attention.fa, "find_spec", lambda name: None)
    assert choose_attn_backend(Place(CUDA, (9, 0), BF16, 16, 128)) == "torch"


def test_auto_never_interprets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(attend, "_compiled", lambda: None)  # as without a C compiler
    assert choose_attn_backend(Place(CPU, None, FP32, 16, 64)) == "torch"


def test_auto_on_this_cpu() -> None:
    assert isinstance(make_world([(0, 3)], page_size=4).create("auto"), TorchAttnBackend)


# ---- what can't run says why, and what can ------------------------------------------------------


@pytest.mark.parametrize("name", ["triton", "fa", "fa,torch", "torch,triton"])
def test_what_cannot_run_here_names_what_can(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(attention.triton_paged, "triton_is_installed", lambda: True)
    culprit = next(part for part in name.split(",") if part != "torch")
    words = f"attention backend '{culprit}' can't run here: .*on cpu; '(torch|cpu)' works here"
    with pytest.raises(ValueError, match=words):
        make_world([(0, 3)], page_size=4).create(name)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place(CUDA, (7, 0), FP16, 16, 64), "compute capability 7.5, and this GPU has 7.0"),
        (Place(CUDA, (9, 0), torch.float64, 16, 64), "bfloat16 and float32, not torch.float64"),
        (Place(CUDA, (9, 0), FP16, 16, 256), "head_dim of at most 128, not 256"),
        (Place(CPU, None, FP16, 16, 64), "needs an NVIDIA GPU, and the pool is on cpu"),
    ],
)
def test_what_triton_misses_is_named(
    place: Place, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(attention.triton_paged, "triton_is_installed", lambda: True)
    assert words in (TritonAttnBackend.why_not(place) or "")
    monkeypatch.setattr(attention.triton_paged, "triton_is_installed", lambda: False)
    assert TritonAttnBackend.why_not(place) == "the package triton is not installed"


def test_torch_cannot_be_captured() -> None:
    backend = make_world([(0, 3)], page_size=4).create("torch")
    with pytest.raises(ValueError, match=r"'torch' can't be captured.*'torch,triton'"):
        backend.init_capture_graph(64, [1])


# ---- pairs --------------------------------------------------------------------------------------


class Spy(TorchAttnBackend):
    """Tells what is asked of it."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.asked: list[str] = []

    def forward(self, *args: object) -> torch.Tensor:
        self.asked.append("forward")
        return super().forward(*args)  # type: ignore[arg-type]

    def prepare_metadata(self, batch: Batch) -> None:
        self.asked.append("metadata")
        super().prepare_metadata(batch)

    def init_capture_graph(self, max_seq_len: int, bs_list: list[int]) -> None:
        self.asked.append("init")

    def prepare_for_capture(self, batch: Batch) -> None:
        self.asked.append("capture")

    def prepare_for_replay(self, batch: Batch) -> None:
        self.asked.append("replay")


@pytest.fixture
def spies(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = {name: type(name, (Spy,), {}) for name in ("one", "two")}
    registered: dict[str, type[BaseAttnBackend]] = SUPPORTED_ATTENTION_BACKENDS._registry
    monkeypatch.setattr(SUPPORTED_ATTENTION_BACKENDS, "_registry", {**registered, **classes})


def test_a_pair_shares_the_work_by_phase(spies: None) -> None:
    w = make_world(LENGTHS["prefill"], page_size=4)
    pair = w.create("one,two")
    assert isinstance(pair, HybridBackend)
    prefill, decode = pair.prefill_backend, pair.decode_backend
    assert isinstance(prefill, Spy) and isinstance(decode, Spy)
    assert (type(prefill).__name__, type(decode).__name__) == ("one", "two")
    q, kv = torch.randn(63, 4, 64), torch.randn(63, 2, 64)
    with use_ctx(w.ctx):
        batch = w.batch("prefill")
        pair.prepare_metadata(batch)
        pair.forward(q[: len(batch.out_loc)], *[kv[: len(batch.out_loc)]] * 2, 0, batch)
    assert (prefill.asked, decode.asked) == (["metadata", "forward"], [])
    for step in (pair.prepare_for_capture, pair.prepare_for_replay):
        step(w.batch("decode"))
    pair.init_capture_graph(64, [1])
    assert prefill.asked == ["metadata", "forward"]
    assert decode.asked == ["capture", "replay", "init"]


def test_a_pair_of_one_is_that_one(spies: None) -> None:
    assert isinstance(make_world([(0, 3)], page_size=4).create("two,two"), Spy)


def test_the_places_of_a_pair_are_looked_up_in_the_current_context() -> None:
    w = make_world([(0, 3)], page_size=4)
    with pytest.raises(RuntimeError, match="no context is current"):
        create_attention_backend("torch", w.config)


# ---- one parity test for all ---------------------------------------------------------------------

PARITY_TESTS = {
    "torch": "attention/test_registry.py",
    "cpu": "attention/test_cpu.py",
    "triton": "kernel/interpreted/test_backend.py",  # in a process that interprets
    "fa": "attention/test_fa.py",  # through a stand-in
}


@pytest.mark.parametrize("page_size", [1, 3, 4, 16, 256])
@pytest.mark.parametrize("phase", LENGTHS)
def test_ragged_batches(phase: str, page_size: int) -> None:
    check_backend("torch", phase, page_size=page_size, dummies=2)


def test_every_backend_passes_the_parity_test() -> None:
    assert set(SUPPORTED_ATTENTION_BACKENDS.supported_names()) == set(PARITY_TESTS)
    for name, path in PARITY_TESTS.items():
        text = (Path(__file__).parents[1] / path).read_text()
        assert re.search(rf'check_backend\(\s*"{name}"', text), path


def test_importing_the_package_imports_neither_triton_nor_flash_attn() -> None:
    code = (
        "import sys; import minisgl_lite.attention, minisgl_lite.kernel, minisgl_lite.engine;"
        "print([m for m in ('triton', 'flash_attn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_fa_class_is_what_the_name_stands_for() -> None:
    assert SUPPORTED_ATTENTION_BACKENDS["fa"] is FlashAttentionBackend


def test_every_registered_backend_is_exported_by_name() -> None:
    import minisgl_lite.attention as attention

    for name in attention.SUPPORTED_ATTENTION_BACKENDS.supported_names():
        backend = attention.SUPPORTED_ATTENTION_BACKENDS[name]
        assert backend.__name__ in attention.__all__, name
        assert getattr(attention, backend.__name__) is backend
