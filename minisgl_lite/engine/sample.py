"""From logits to the next token (mini-sglang: engine/sample.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch

from ..core import Batch, Req, SamplingParams


@dataclass
class BatchSamplingArgs:
    """What the sampler needs of a batch. All None: every request is greedy.

    ``temperatures``, ``top_p``: (bs,) fp32; ``top_k``: (bs,) int64, the vocabulary's size for all.
    ``noise``: (bs,) fp32 in [0, 1), each drawn from its own request's stream.
    """

    temperatures: torch.Tensor | None = None
    top_k: torch.Tensor | None = None
    top_p: torch.Tensor | None = None
    noise: torch.Tensor | None = None


def sample_impl(
    logits: torch.Tensor,
    temperatures: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    noise: torch.Tensor,
) -> torch.Tensor:
    """Draw one token per row: (bs,) int64.

    Tokens are ranked by probability; those beyond ``top_k``, and those after the first whose
    running sum reaches ``top_p``, are left out. ``noise`` picks a place in the sum of the rest.

    Args:
        logits: (bs, vocab) fp32; the others as in ``BatchSamplingArgs``.
    """
    greedy = temperatures <= 0.0
    # NOTE: the best logit becomes 0 first, so that no temperature makes two of them infinite.
    above = logits - logits.amax(-1, keepdim=True)
    scaled = above / torch.where(greedy, 1.0, temperatures.clamp(min=1e-30))[:, None]
    probs, order = scaled.softmax(-1).sort(dim=-1, descending=True, stable=True)  # (bs, vocab)
    ranks = torch.arange(probs.shape[-1], device=probs.device)
    before = probs.cumsum(-1) - probs
    kept = (ranks < top_k[:, None]) & (before < top_p[:, None])
    kept[:, 0] = True
    mass = (probs * kept).cumsum(-1)
    wanted = noise[:, None] * mass[:, -1:]
    place = torch.searchsorted(mass, wanted, right=True).clamp(max=kept.shape[-1] - 1)
    place = torch.minimum(place, kept.sum(-1, keepdim=True) - 1)
    drawn = order.gather(-1, place).squeeze(-1)
    return torch.where(greedy, logits.argmax(-1), drawn)


@dataclass
class Sampler:
    """Chooses tokens on ``device``; keeps one random stream per request that draws."""

    device: torch.device
    vocab_size: int
    _generators: WeakKeyDictionary[Req, torch.Generator] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False
    )

    def prepare(self, batch: Batch) -> BatchSamplingArgs:
        """Arguments for ``batch.reqs``; advances the stream of each request that draws."""
        params = [req.sampling_params for req in batch.reqs]
        if all(p.is_greedy for p in params):
            return BatchSamplingArgs()
        noise = [self._draw(req) for req in batch.reqs]
        return BatchSamplingArgs(
            temperatures=self._tensor(
                [0.0 if p.is_greedy else float(p.temperature) for p in params]
            ),
            top_k=self._tensor([self._top_k(p) for p in params]).long(),
            top_p=self._tensor([float(p.top_p) for p in params]),
            noise=self._tensor(noise),
        )

    def sample(self, logits: torch.Tensor, args: BatchSamplingArgs) -> torch.Tensor:
        """The next token of each row of ``logits``, (bs, vocab): (bs,) int64."""
        if args.temperatures is None:
            return logits.argmax(dim=-1)
        assert args.top_k is not None and args.top_p is not None and args.noise is not None
        return sample_impl(logits.float(), args.temperatures, args.top_k, args.top_p, args.noise)

    def _top_k(self, params: SamplingParams) -> int:
        return self.vocab_size if params.top_k < 1 else min(params.top_k, self.vocab_size)

    def _draw(self, req: Req) -> float:
        """NOTE: what a chunk samples is thrown away, so it must not advance its request's stream.

        Before a step ``can_decode`` is False for chunks only.
        """
        if req.sampling_params.is_greedy or not req.can_decode:
            return 0.0
        generator = self._generators.get(req)
        if generator is None:
            seed = req.sampling_params.seed
            if seed is None:
                seed = int(torch.randint(2**62, (1,)))
            generator = self._generators[req] = torch.Generator().manual_seed(int(seed))
        return float(torch.rand((), generator=generator))

    def _tensor(self, values: list[float] | list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32).to(self.device, non_blocking=True)
