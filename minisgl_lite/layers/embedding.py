"""Token embedding and output head, cut along the vocabulary (mini-sglang: layers/embedding.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

from minisgl_lite.core import get_global_ctx
from minisgl_lite.distributed import DistributedCommunicator, get_tp_info
from minisgl_lite.utils import div_ceil

from .base import BaseOP, StateDict


class VocabParallelEmbedding(BaseOP):
    """Rank r holds rows [r·n, (r+1)·n) of the table, n = ceil(num_embeddings / ranks).

    Where the vocabulary ends early, the last rows of a rank are padding that nothing reads.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        info = get_tp_info()
        self.tp_size = info.size
        self.num_embeddings = num_embeddings
        self.num_embeddings_tp = div_ceil(num_embeddings, info.size)
        start = min(self.num_embeddings_tp * info.rank, num_embeddings)
        finish = min(start + self.num_embeddings_tp, num_embeddings)
        self.vocab_range = (start, finish - start)
        self.weight = torch.empty(self.num_embeddings_tp, embedding_dim)
        self._comm = DistributedCommunicator()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Ids (T,), int32 or int64, in [0, num_embeddings) -> (T, embedding_dim), fresh."""
        if self.tp_size == 1:
            return F.embedding(x, self.weight)
        start, length = self.vocab_range
        local = x - start
        foreign = (local < 0) | (local >= length)
        y = F.embedding(local.masked_fill(foreign, 0), self.weight)
        # Exactly one rank has each row; the others add zeros.
        return self._comm.all_reduce(y.masked_fill_(foreign.unsqueeze(-1), 0))


class ParallelLMHead(VocabParallelEmbedding):
    """Hidden states -> logits over the whole vocabulary, on every rank.

    ``tied_embedding`` lends its table; the head then has no weight of its own. ``product``: as in a
    linear layer.
    """

    product: Callable[[torch.Tensor], torch.Tensor] | None = None

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        bias: bool = False,
        tie_word_embeddings: bool = False,
        tied_embedding: VocabParallelEmbedding | None = None,
    ) -> None:
        assert (tied_embedding is not None) == tie_word_embeddings
        super().__init__(num_embeddings, embedding_dim)
        self.bias = torch.empty(self.num_embeddings_tp) if bias else None
        self.tied_embedding = tied_embedding
        if tied_embedding is not None:
            del self.weight

    def _children(self) -> Iterator[tuple[str, torch.Tensor | BaseOP]]:
        # The lender owns the table.
        return (child for child in super()._children() if child[0] != "tied_embedding")

    def load_state_dict(
        self, state_dict: StateDict, *, prefix: str = "", _internal: bool = False
    ) -> None:
        """As the base; a tied head drops a second copy of the table that some checkpoints hold."""
        if self.tied_embedding is not None:
            state_dict.pop(f"{prefix}.weight", None)
        super().load_state_dict(state_dict, prefix=prefix, _internal=_internal)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(T, embedding_dim) -> fp32 logits (bs, num_embeddings).

        bs counts the padded requests. A prefill needs only each request's last row, so the others
        are dropped before the largest matrix of the model.
        """
        batch = get_global_ctx().batch
        if batch.is_prefill:
            x = x[batch.attn_metadata.get_last_indices(batch.padded_size)]
        if self.product is not None:
            return self.product(x).float()  # (bs, num_embeddings)
        module = self.tied_embedding or self
        logits = F.linear(x, module.weight, self.bias)  # (bs, n)
        return self._gather(logits).float()

    def _gather(self, logits: torch.Tensor) -> torch.Tensor:
        """Put the ranks' columns side by side: (bs, n) -> (bs, num_embeddings)."""
        if self.tp_size == 1:
            return logits
        bs = logits.shape[0]
        gathered = self._comm.all_gather(logits).view(self.tp_size, bs, -1)
        return gathered.transpose(0, 1).reshape(bs, -1)[:, : self.num_embeddings]
