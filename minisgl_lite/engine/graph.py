"""Decode batches of a few fixed sizes (mini-sglang: engine/graph.py).

A captured CUDA graph replays one batch size, so decode batches are filled up with the dummy request
to the next captured size. Padding needs no GPU and can be watched without one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from ..core import Batch, Req


class GraphRunner:
    """Pads to ``cuda_graph_bs``, sizes in any order; an empty list pads nothing."""

    def __init__(self, cuda_graph_bs: Sequence[int] | None, dummy_req: Req) -> None:
        self.graph_bs_list = sorted(set(cuda_graph_bs or ()))
        self.max_graph_bs = max(self.graph_bs_list, default=0)
        self.dummy_req = dummy_req

    def can_use_cuda_graph(self, batch: Batch) -> bool:
        """Whether the batch has a captured size to be padded to."""
        return batch.is_decode and batch.size <= self.max_graph_bs

    def pad_batch(self, batch: Batch) -> None:
        """Set ``batch.padded_reqs``: ``reqs``, then the dummy as often as needed."""
        missing = 0
        if self.can_use_cuda_graph(batch):
            sizes = self.graph_bs_list
            missing = sizes[bisect_left(sizes, batch.size)] - batch.size
        batch.padded_reqs = batch.reqs + [self.dummy_req] * missing


def make_dummy_req(table_idx: int) -> Req:
    """The request that fills a padded batch: one token, id 0, in the last table row, uid -1."""
    import torch

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
