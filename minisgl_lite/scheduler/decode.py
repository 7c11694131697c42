"""The requests that produce one token a step (mini-sglang: scheduler/decode.py)."""

from __future__ import annotations

from collections.abc import Iterable, MutableSet
from dataclasses import dataclass, field

from ..core import Batch, Req
from ..utils import OrderedSet, div_ceil


@dataclass
class DecodeManager:
    """``running_reqs`` in order of arrival.

    NOTE: a plain set would be ordered by addresses, and two ranks would build different batches.
    """

    page_size: int
    running_reqs: MutableSet[Req] = field(default_factory=OrderedSet)

    def filter_reqs(self, reqs: Iterable[Req]) -> None:
        """Add ``reqs`` of the batch just launched; keep those that have another step to come."""
        candidates = dict.fromkeys(self.running_reqs)
        candidates.update(dict.fromkeys(reqs))
        self.running_reqs = OrderedSet([req for req in candidates if req.can_decode])

    def remove_req(self, req: Req) -> None:
        self.running_reqs.discard(req)

    def abort_req(self, uid: int) -> Req | None:
        """Take the request out, and return it for release; None if it isn't running."""
        for req in self.running_reqs:
            if req.uid == uid:
                self.remove_req(req)
                return req
        return None

    @property
    def inflight_tokens(self) -> int:
        """Tokens, in whole pages, that the running requests will still ask for."""
        return sum(self._still_needed(req) for req in self.running_reqs)

    def schedule_next_batch(self) -> Batch | None:
        if not self.runnable:
            return None
        return Batch(reqs=list(self.running_reqs), phase="decode")

    @property
    def runnable(self) -> bool:
        return len(self.running_reqs) > 0

    def _still_needed(self, req: Req) -> int:
        """NOTE: the last token is sampled but never written, so it needs no place."""
        pages = div_ceil(req.max_device_len - 1, self.page_size)
        return max(0, pages - div_ceil(req.cached_len, self.page_size)) * self.page_size
