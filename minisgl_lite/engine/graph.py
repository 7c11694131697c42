"""Decode batches of a few fixed sizes (mini-sglang: engine/graph.py).

A captured CUDA graph replays one batch size, so decode batches are filled up with the dummy request
to the next captured size. Padding needs no GPU and can be watched without one; nor does the replay,
for which a CPU has its own recorder (``tape.py``).

A graph is a list of kernel launches with their addresses. So all that changes from step to step is
copied to fixed addresses before a replay: ids, positions and ``out_loc`` here, lengths and page ids
in the attention backend's own buffers.
"""

from __future__ import annotations

import gc
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ..core import Batch, Req, get_global_ctx

if TYPE_CHECKING:
    from ..attention.base import BaseAttnBackend
    from ..models.base import BaseLLMModel


class Graph(Protocol):
    """Recorded work that can be done again, at the same addresses."""

    def replay(self) -> None: ...


@dataclass
class GraphCaptureBuffer:
    """The fixed addresses of a step of up to ``bs`` requests: (bs,) int32; logits (bs, vocab)."""

    input_ids: torch.Tensor
    out_loc: torch.Tensor
    positions: torch.Tensor
    logits: torch.Tensor

    @classmethod
    def init(cls, bs: int, vocab_size: int, device: torch.device) -> GraphCaptureBuffer:
        ids, out_loc, positions = torch.zeros((3, bs), dtype=torch.int32, device=device)
        logits = torch.empty((bs, vocab_size), dtype=torch.float32, device=device)
        return cls(ids, out_loc, positions, logits)

    def set_batch(self, batch: Batch) -> None:
        """Let ``batch`` stand at these addresses."""
        part = slice(batch.padded_size)
        batch.input_ids = self.input_ids[part]
        batch.out_loc = self.out_loc[part]
        batch.positions = self.positions[part]

    def copy_from(self, batch: Batch) -> None:
        part = slice(batch.padded_size)
        self.input_ids[part].copy_(batch.input_ids)
        self.out_loc[part].copy_(batch.out_loc)
        self.positions[part].copy_(batch.positions)


def determine_cuda_graph_bs(
    cuda_graph_bs: Sequence[int] | None, cuda_graph_max_bs: int | None, max_running_req: int
) -> list[int]:
    """The decode batch sizes to pad to, ascending: those given, else the usual ones.

    The usual ones are 1, 2, 4 and the multiples of 8 up to ``cuda_graph_max_bs``, and no larger
    than ``max_running_req``: a batch can't be. With neither given there are none; mini-sglang
    picks a maximum by the memory of the GPU then.
    """
    if cuda_graph_bs is not None:
        return sorted(set(cuda_graph_bs))
    largest = min(cuda_graph_max_bs or 0, max_running_req)
    return [size for size in (1, 2, 4, *range(8, largest + 1, 8)) if size <= largest]


class GraphRunner:
    """Pads to ``cuda_graph_bs``, sizes in any order; an empty list pads nothing.

    After ``capture`` a padded decode batch can be replayed; without it, it is only padded.
    """

    def __init__(self, cuda_graph_bs: Sequence[int] | None, dummy_req: Req) -> None:
        self.graph_bs_list = sorted(set(cuda_graph_bs or ()))
        self.max_graph_bs = max(self.graph_bs_list, default=0)
        self.dummy_req = dummy_req
        self.graph_map: dict[int, Graph] = {}

    @torch.inference_mode()
    def capture(
        self,
        model: BaseLLMModel,
        attn_backend: BaseAttnBackend,
        max_seq_len: int,
        vocab_size: int,
        record: Callable[[Callable[[], None]], Graph],
    ) -> None:
        """Record a decode step of each size, on the current context; largest first.

        The recorded requests are all the dummy: what they store goes to the dummy page.

        Args:
            record: turns a step into a ``Graph``; a ``CudaRecorder`` or ``TapeRecorder``.

        Raises:
            ValueError: the attention backend can't be captured.
        """
        assert not self.graph_map
        if self.max_graph_bs == 0:
            return
        attn_backend.init_capture_graph(max_seq_len=max_seq_len, bs_list=self.graph_bs_list)
        self.attn_backend = attn_backend
        page_table = get_global_ctx().page_table
        self.buffer = GraphCaptureBuffer.init(self.max_graph_bs, vocab_size, page_table.device)
        self.buffer.out_loc.copy_(page_table[self.dummy_req.table_idx, 0])
        for bs in reversed(self.graph_bs_list):
            self.graph_map[bs] = self._capture_one(bs, model, record)

    def _capture_one(
        self, bs: int, model: BaseLLMModel, record: Callable[[Callable[[], None]], Graph]
    ) -> Graph:
        batch = Batch(reqs=[self.dummy_req] * bs, phase="decode")
        batch.padded_reqs = batch.reqs
        self.attn_backend.prepare_metadata(batch)
        self.attn_backend.prepare_for_replay(batch)  # the dummies' pages, for the runs to come
        self.attn_backend.prepare_for_capture(batch)
        self.buffer.set_batch(batch)

        def step() -> None:
            self.buffer.logits[:bs].copy_(model.forward())

        with get_global_ctx().forward_batch(batch):
            return record(step)

    def can_use_cuda_graph(self, batch: Batch) -> bool:
        """Whether the batch has a captured size to be padded to."""
        return batch.is_decode and batch.size <= self.max_graph_bs

    def can_replay(self, batch: Batch) -> bool:
        """Whether the padded batch has a graph, and nobody watches.

        NOTE: a replay passes no layer, so listeners would miss what is stored and read.
        """
        return (
            batch.is_decode
            and batch.padded_size in self.graph_map
            and not get_global_ctx().hooks.active
        )

    @torch.inference_mode()
    def replay(self, batch: Batch) -> torch.Tensor:
        """Run a prepared, padded batch: fp32 logits (size, vocab), valid until the next replay."""
        assert self.can_replay(batch)
        self.buffer.copy_from(batch)
        self.attn_backend.prepare_for_replay(batch)
        self.graph_map[batch.padded_size].replay()
        return self.buffer.logits[: batch.size]

    def pad_batch(self, batch: Batch) -> None:
        """Set ``batch.padded_reqs``: ``reqs``, then the dummy as often as needed."""
        missing = 0
        if self.can_use_cuda_graph(batch):
            sizes = self.graph_bs_list
            missing = sizes[bisect_left(sizes, batch.size)] - batch.size
        batch.padded_reqs = batch.reqs + [self.dummy_req] * missing

    def destroy_cuda_graphs(self) -> None:
        """Give the graphs' memory back; batches are padded as before, and run eagerly.

        NOTE: before NCCL's resources are freed, which captured graphs hold.
        """
        self.graph_map.clear()
        for name in ("buffer", "attn_backend"):
            self.__dict__.pop(name, None)
        gc.collect()


class CudaRecorder:
    """Records steps on one stream; all graphs share the first one's memory pool.

    They may, as they never run at the same time: the largest must come first.
    """

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.stream = stream
        self.pool: Any = None

    def __call__(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        with torch.cuda.stream(self.stream):
            step()  # compiles kernels and makes workspaces, which a capture must not
        torch.cuda.synchronize(self.stream.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            step()
        self.pool = self.pool or graph.pool()
        return graph


def make_dummy_req(table_idx: int) -> Req:
    """The request that fills a padded batch: one token, id 0, in the last table row, uid -1."""
    from ..core import SamplingParams
    from ..kvcache import NaiveCacheHandle

    return Req(
        input_ids=torch.tensor([0], dtype=torch.int32),
        table_idx=table_idx,
        cached_len=0,
        output_len=1,
        uid=-1,
        sampling_params=SamplingParams(max_tokens=1),
        cache_handle=NaiveCacheHandle(),
    )
