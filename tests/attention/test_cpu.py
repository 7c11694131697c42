"""The compiled decode attention: the parity test, and what it says when it can't run."""

from __future__ import annotations

import pytest
import torch

from minisgl_lite.attention import CpuAttnBackend, Place
from minisgl_lite.kernel import attend
from minisgl_lite.kernel.attend import decode_attention_cpu, why_not_compiled
from tests.attention.parity import LENGTHS, check_backend

CPU = torch.device("cpu")
needs_compiler = pytest.mark.skipif(
    why_not_compiled(torch.float32, 64) is not None, reason="no C compiler"
)


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("page_size", [1, 3, 4, 16, 256])
@pytest.mark.parametrize("phase", LENGTHS)
def test_ragged_batches(phase: str, page_size: int, dtype: torch.dtype) -> None:
    check_backend("cpu", phase, page_size=page_size, dtype=dtype, dummies=2)


@needs_compiler
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(9, 3, 64), (2, 2, 128), (6, 1, 16)])
def test_other_heads(heads: int, kv_heads: int, head_dim: int) -> None:
    sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    check_backend("cpu", "decode", page_size=4, **sizes)


def caches(bs: int, length: int = 20) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(bs)
    k, v = torch.randn(2, 8, 4, 3, 64)
    table = torch.randint(0, 8, (bs, 5), dtype=torch.int32)
    return torch.randn(bs, 9, 64), k, v, table, torch.full((bs,), length, dtype=torch.int32)


@needs_compiler
def test_a_request_gets_the_same_bits_whatever_its_batch_mates() -> None:
    q, k, v, table, lengths = caches(7)
    lengths[:] = torch.tensor([1, 20, 3, 17, 20, 4, 9])
    together = decode_attention_cpu(q, k, v, table, lengths, scale=0.1)
    for i in range(7):
        one = slice(i, i + 1)
        alone = decode_attention_cpu(q[one], k, v, table[one], lengths[one], scale=0.1)
        assert torch.equal(alone[0], together[i])


@needs_compiler
@pytest.mark.parametrize("page", [-1, 8])
def test_a_page_outside_the_pool_is_named_and_nothing_read(page: int) -> None:
    q, k, v, table, lengths = caches(3)
    table[2, 4] = page
    with pytest.raises(ValueError, match=r"request 2: a page is outside the pool's \[0, 8\)"):
        decode_attention_cpu(q, k, v, table, lengths, scale=0.1)
    lengths[2] = 16  # the entry is beyond the request's pages now
    decode_attention_cpu(q, k, v, table, lengths, scale=0.1)


@needs_compiler
@pytest.mark.parametrize("length", [-1, 0, 21])
def test_a_length_beyond_the_row_is_named_and_nothing_read(length: int) -> None:
    q, k, v, table, lengths = caches(3)
    lengths[1] = length
    with pytest.raises(ValueError, match=rf"request 1: .* length {length} outside \[1, 20\]"):
        decode_attention_cpu(q, k, v, table, lengths, scale=0.1)


@needs_compiler
@pytest.mark.parametrize("which", [1, 2, 3, 4])
def test_other_dtypes_are_refused(which: int) -> None:
    given = list(caches(2))
    given[which] = given[which].to(torch.int64 if which > 2 else torch.float16)
    with pytest.raises(ValueError, match="allowed are float32 or bfloat16"):
        decode_attention_cpu(*given, scale=0.1)


@needs_compiler
def test_caches_must_be_contiguous() -> None:
    q, k, v, table, lengths = caches(2)
    with pytest.raises(ValueError, match="contiguous"):
        decode_attention_cpu(q, k.transpose(0, 1), v, table, lengths, scale=0.1)


@needs_compiler
@pytest.mark.parametrize(
    ("which", "part"),
    [
        (0, (slice(None), slice(None), slice(0, 16))),  # shorter heads
        (2, (slice(0, 4),)),  # fewer pages of V
        (3, (slice(0, 1),)),  # rows of fewer requests
        (4, (slice(0, 1),)),  # lengths of fewer requests
    ],
)
def test_shapes_that_do_not_belong_together_are_refused(which: int, part: tuple[slice]) -> None:
    given = list(caches(2))
    given[which] = given[which][part].contiguous()
    with pytest.raises(ValueError, match=r"does not fit K|are not those of 2 requests"):
        decode_attention_cpu(*given, scale=0.1)


def test_what_it_misses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def why(dtype: torch.dtype, head_dim: int, device: str = "cpu") -> str:
        return CpuAttnBackend.why_not(Place(torch.device(device), None, dtype, 4, head_dim)) or ""

    assert "takes float32 and bfloat16, not torch.float16" in why(torch.float16, 64)
    assert "head_dim that 16 divides, not 8" in why(torch.float32, 8)
    assert "a pool on the CPU, and this one is on cuda" in why(torch.float32, 64, "cuda")
    monkeypatch.setattr(attend, "_compiled", lambda: None)
    assert "no C compiler" in why(torch.float32, 64)
