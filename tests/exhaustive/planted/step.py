"""Faults of preparing a step, of its results, of aborts."""

from __future__ import annotations

from typing import Any

import torch

from minisgl_lite.core import Batch, Req
from minisgl_lite.scheduler import ForwardInput, Scheduler
from minisgl_lite.scheduler.mapping import make_input_tuple, make_positions


class LooksUpFirst(Scheduler):
    """``out_loc`` is looked up before pages are allocated."""

    def _prepare_batch(self, batch: Batch) -> ForwardInput:
        batch.padded_reqs = batch.reqs
        batch.positions = make_positions(batch, self.device)
        before = self.engine.page_table[make_input_tuple(batch, self.device)]
        prepared = super()._prepare_batch(batch)
        batch.out_loc = before
        return prepared


class PositionsFromZero(Scheduler):
    """After a hit the positions begin at 0 again."""

    def _prepare_batch(self, batch: Batch) -> ForwardInput:
        prepared = super()._prepare_batch(batch)
        ranges = [torch.arange(req.extend_len, dtype=torch.int32) for req in batch.reqs]
        batch.positions = torch.cat(ranges)
        return prepared


class ChunkSpeaks(Scheduler):
    """What is sampled from an unfinished chunk is put into the token pool."""

    def _prepare_batch(self, batch: Batch) -> ForwardInput:
        prepared = super()._prepare_batch(batch)
        rows, _ = prepared.write_tuple
        columns = torch.tensor([req.device_len for req in batch.reqs])
        return prepared._replace(write_tuple=(rows, columns))


class ForgetsOnDevice(Scheduler):
    """A request whose step is on the device when it is cancelled is released at once."""

    def _abort_request(self, uid: int) -> None:
        held = self.prefill_manager.abort_req(uid) or self.decode_manager.abort_req(uid)
        if held is not None:
            self._free_req_resources(held)
            self.finished_reqs = self.finished_reqs | {held}


class ForgetsEnded(Scheduler):
    """The result of a step that was launched before the request ended counts once more."""

    def _take_result(self, req: Req, next_token: int, batch: Batch) -> Any:
        self.finished_reqs = set()
        return super()._take_result(req, next_token, batch)


class OneTokenMore(Scheduler):
    """The end by length is noticed one token late."""

    def _finish_reason(self, req: Req, next_token: int) -> str | None:
        if next_token in self.eos_token_ids:
            return "stop"
        return "length" if len(req.input_ids) > req.max_device_len else None


class IgnoresStop(Scheduler):
    """A stop is not a reason to end."""

    def _finish_reason(self, req: Req, next_token: int) -> str | None:
        return "length" if len(req.input_ids) == req.max_device_len else None


class NeverAborts(Scheduler):
    """A cancelled request goes on to its end."""

    def _abort_request(self, uid: int) -> None:
        pass
