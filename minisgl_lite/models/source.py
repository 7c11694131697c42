"""Where a model comes from: its shape, weights and tokenizer under one roof."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from minisgl_lite.distributed import get_tp_info
from minisgl_lite.kernel.blocks import Blocks

from .config import ModelConfig
from .tokenizer import Tokenizer


class ModelSource(ABC):
    """An opened model, whose weights are read only when asked for.

    ``name`` is what the user called it; ``whole_config`` the shape of the model as stored.
    """

    name: str
    whole_config: ModelConfig
    eos_token_ids: tuple[int, ...]

    @property
    def config(self) -> ModelConfig:
        """The shape that the current number of tensor-parallel ranks shares."""
        return self.whole_config.filled_up(get_tp_info().size)

    @property
    def vocab_size(self) -> int:
        """The number of logits, which may exceed the tokenizer's vocabulary by padding."""
        return self.whole_config.vocab_size

    @abstractmethod
    def state_dict(self, dtype: torch.dtype, device: torch.device) -> dict[str, torch.Tensor]:
        """The weights of the current tensor-parallel rank, merged and cut; fresh at each call.

        Raises:
            ValueError: a wrong or partial checkpoint; names the tensor.
        """

    def blocks(self) -> dict[str, Blocks]:
        """Weights as the file packs them, by the names of ``state_dict``; those that it packs.

        None where the weights are shared by several ranks.
        """
        return {}

    @abstractmethod
    def _make_tokenizer(self) -> Tokenizer: ...

    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, made once.

        Raises:
            ImportError: it needs the ``tokenizers`` package.
            ValueError: the model has no tokenizer, or one that is not supported.
        """
        if not hasattr(self, "_tokenizer"):
            self._tokenizer = self._make_tokenizer()
        return self._tokenizer
