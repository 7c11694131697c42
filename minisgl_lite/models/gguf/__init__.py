"""GGUF files: a small parser of our own, without the ``gguf`` package."""

from .config import ARCHITECTURES, config_from_gguf
from .reader import GGUFFile, TensorInfo
from .source import GGUFSource, find_smollm2
from .tensors import GGUFTensors
from .tokenizer import tokenizer_from_gguf

__all__ = [
    "ARCHITECTURES",
    "GGUFFile",
    "GGUFSource",
    "GGUFTensors",
    "TensorInfo",
    "config_from_gguf",
    "find_smollm2",
    "tokenizer_from_gguf",
]
