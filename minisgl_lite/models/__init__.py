"""Models: Llama, Mistral, Qwen2.5 and Qwen3, from GGUF files and safetensors folders."""

from .base import BaseLLMModel
from .config import ModelConfig, RotaryConfig
from .opening import open_model
from .register import SUPPORTED_MODELS, create_model
from .source import ModelSource
from .tokenizer import StreamDecoder, Tokenizer
from .weight import load_weight

__all__ = [
    "SUPPORTED_MODELS",
    "BaseLLMModel",
    "ModelConfig",
    "ModelSource",
    "RotaryConfig",
    "StreamDecoder",
    "Tokenizer",
    "create_model",
    "load_weight",
    "open_model",
]
