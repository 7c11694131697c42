"""Which class runs which architecture (mini-sglang: models/register.py)."""

from __future__ import annotations

from minisgl_lite.utils import Registry

from .base import BaseLLMModel
from .config import ModelConfig
from .llama import LlamaForCausalLM
from .mistral import MistralForCausalLM
from .qwen2 import Qwen2ForCausalLM
from .qwen3 import Qwen3ForCausalLM

SUPPORTED_MODELS: Registry[type[LlamaForCausalLM]] = Registry("model architecture")
"""Model classes by the architecture that a config names."""

for _model in (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM):
    SUPPORTED_MODELS.register(_model.__name__)(_model)


def create_model(config: ModelConfig) -> BaseLLMModel:
    """Build the model for the current tensor-parallel rank, with empty weights.

    Weights take torch's default dtype and device; on the meta device they take no memory until
    ``load_state_dict``.

    Raises:
        ValueError: an architecture that is not registered.
    """
    return SUPPORTED_MODELS[config.architectures[0]](config)
