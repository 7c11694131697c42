"""What the engine needs of a model (mini-sglang: models/base.py)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from minisgl_lite.layers import BaseOP


class BaseLLMModel(ABC, BaseOP):
    """A decoder that reads its inputs from the current context's batch."""

    @abstractmethod
    def forward(self) -> torch.Tensor:
        """One step: the batch's ``input_ids`` and ``positions``, (T,) -> fp32 (bs, vocab_size).

        As a side effect the attention backend stores this step's K/V at ``batch.out_loc``.
        """
