"""Cut layers, rank after rank in one process: what the ranks hold together makes the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
import torch
import torch.nn.functional as F

from minisgl_lite.core import Batch, Context, use_ctx
from minisgl_lite.distributed import DistributedCommunicator, DistributedInfo, use_tp_info
from minisgl_lite.layers import (
    LinearColParallelMerged,
    LinearOProj,
    LinearQKVMerged,
    LinearReplicated,
    LinearRowParallel,
    ParallelLMHead,
    VocabParallelEmbedding,
)

T = TypeVar("T")


def on_each_rank(size: int, build: Callable[[int], T]) -> list[T]:
    """``build(rank)`` under each rank's tensor-parallel info."""
    built = []
    for rank in range(size):
        with use_tp_info(DistributedInfo(rank, size)):
            built.append(build(rank))
    return built


@pytest.fixture
def local_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """All-reduce hands back the rank's own part; the test adds the parts up."""
    monkeypatch.setattr(DistributedCommunicator, "all_reduce", lambda self, x: x)


def test_a_replicated_layer_is_whole_on_each_rank() -> None:
    layers = on_each_rank(2, lambda rank: LinearReplicated(6, 4, has_bias=True))
    assert [layer.weight.shape for layer in layers] == [(4, 6), (4, 6)]


def test_merged_columns_are_shared_out_matrix_by_matrix() -> None:
    layers = on_each_rank(2, lambda rank: LinearColParallelMerged(6, [4, 10], has_bias=True))
    assert [layer.weight.shape for layer in layers] == [(7, 6), (7, 6)]
    assert layers[0].bias is not None and layers[0].bias.shape == (7,)


@pytest.mark.parametrize(
    ("kv_heads", "size", "local"), [(2, 2, 1), (4, 2, 2), (1, 4, 1), (2, 4, 1)]
)
def test_few_kv_heads_are_held_by_several_ranks(kv_heads: int, size: int, local: int) -> None:
    layers = on_each_rank(size, lambda rank: LinearQKVMerged(16, 8, 4, kv_heads, has_bias=False))
    rows = (4 // size + 2 * local) * 8
    assert [layer.weight.shape for layer in layers] == [(rows, 16)] * size


def test_heads_that_cant_be_shared_evenly_are_refused() -> None:
    with use_tp_info(DistributedInfo(0, 2)), pytest.raises(ValueError, match="9 items"):
        LinearQKVMerged(16, 8, 9, 3, has_bias=False)


@pytest.mark.parametrize("cls", [LinearRowParallel, LinearOProj])
@pytest.mark.usefixtures("local_sums")
def test_rows_of_all_ranks_add_up_to_the_whole_product(cls: type[LinearRowParallel]) -> None:
    weight, x = torch.randn(5, 8), torch.randn(3, 8)

    def part(rank: int) -> torch.Tensor:
        layer = cls(8, 5, has_bias=False)
        layer.load_state_dict({"weight": weight[:, rank * 4 : rank * 4 + 4].clone()})
        return layer.forward(x[:, rank * 4 : rank * 4 + 4])

    torch.testing.assert_close(sum(on_each_rank(2, part)), x @ weight.T)


def test_a_row_parallel_bias_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DistributedCommunicator, "all_reduce", lambda self, x: x * 2)
    with use_tp_info(DistributedInfo(0, 2)):
        layer = LinearRowParallel(4, 3, has_bias=True)
    layer.load_state_dict({"weight": torch.ones(3, 2), "bias": torch.tensor([1.0, 2.0, 3.0])})
    out = layer.forward(torch.ones(1, 2))
    assert torch.equal(out, torch.tensor([[5.0, 6.0, 7.0]]))


@pytest.mark.parametrize(("vocab", "size"), [(10, 2), (10, 4), (5, 4), (3, 4)])
@pytest.mark.usefixtures("local_sums")
def test_each_row_of_the_vocabulary_comes_from_exactly_one_rank(vocab: int, size: int) -> None:
    table, ids = torch.randn(vocab, 6), torch.arange(vocab, dtype=torch.int32)
    rows = -(-vocab // size)
    padded = torch.cat([table, torch.full((rows * size - vocab, 6), torch.nan)])

    def part(rank: int) -> torch.Tensor:
        embedding = VocabParallelEmbedding(vocab, 6)
        embedding.load_state_dict({"weight": padded[rank * rows : (rank + 1) * rows].clone()})
        return embedding.forward(ids)

    assert torch.equal(sum(on_each_rank(size, part)), table)


class LastOfEach:
    """Metadata of a prefill of requests of two tokens each."""

    def get_last_indices(self, bs: int) -> torch.Tensor:
        return torch.arange(bs) * 2 + 1


def batch_of(bs: int, phase: str) -> Batch:
    batch = Batch(reqs=[], phase=phase)  # type: ignore[arg-type]
    batch.padded_reqs = [None] * bs  # type: ignore[list-item]
    batch.attn_metadata = LastOfEach()  # type: ignore[assignment]
    return batch


def run_head(head: ParallelLMHead, x: torch.Tensor, batch: Batch, size: int = 1) -> torch.Tensor:
    ctx = Context(page_size=1, tp_info=DistributedInfo(0, size))
    with use_ctx(ctx), ctx.forward_batch(batch):
        return head.forward(x)


def test_the_head_keeps_the_last_row_of_each_request_in_a_prefill() -> None:
    head = ParallelLMHead(5, 3)
    head.load_state_dict({"weight": torch.randn(5, 3)})
    x = torch.randn(4, 3)
    out = run_head(head, x, batch_of(2, "prefill"))
    assert torch.equal(out, F.linear(x[[1, 3]], head.weight))
    assert torch.equal(run_head(head, x, batch_of(4, "decode")), F.linear(x, head.weight))


def test_logits_are_fp32_whatever_the_weights() -> None:
    head = ParallelLMHead(5, 3)
    head.load_state_dict({"weight": torch.randn(5, 3).bfloat16()})
    out = run_head(head, torch.randn(2, 3).bfloat16(), batch_of(2, "decode"))
    assert out.dtype == torch.float32


def test_a_tied_head_borrows_the_table_and_has_no_weight() -> None:
    embedding = VocabParallelEmbedding(5, 3)
    head = ParallelLMHead(5, 3, tie_word_embeddings=True, tied_embedding=embedding)
    assert head.state_dict(prefix="lm_head") == {}
    head.load_state_dict({"lm_head.weight": torch.zeros(5, 3)}, prefix="lm_head")
    embedding.load_state_dict({"weight": torch.randn(5, 3)})
    x = torch.randn(2, 3)
    assert torch.equal(run_head(head, x, batch_of(2, "decode")), x @ embedding.weight.T)


@pytest.mark.parametrize("bs", [1, 2])
@pytest.mark.parametrize("vocab", [6, 5])
def test_gathered_logits_stand_row_by_row(
    monkeypatch: pytest.MonkeyPatch, bs: int, vocab: int
) -> None:
    """Rank 0 has [1,2,3] and [4,5,6], rank 1 [7,8,9] and [10,11,12]; a padded column is cut."""
    parts = [torch.tensor([[1.0, 2, 3], [4, 5, 6]]), torch.tensor([[7.0, 8, 9], [10, 11, 12]])]
    gathered = torch.cat([part[:bs] for part in parts])
    monkeypatch.setattr(DistributedCommunicator, "all_gather", lambda self, x: gathered)
    with use_tp_info(DistributedInfo(0, 2)):
        head = ParallelLMHead(vocab, 3)
    head.load_state_dict({"weight": torch.eye(3)})
    out = run_head(head, parts[0][:bs], batch_of(bs, "decode"), size=2)
    whole = torch.tensor([[1.0, 2, 3, 7, 8, 9], [4, 5, 6, 10, 11, 12]])
    assert torch.equal(out, whole[:bs, :vocab])
