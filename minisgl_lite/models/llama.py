"""The Llama family (mini-sglang: models/llama.py). Its relatives differ by the class attributes."""

from __future__ import annotations

from typing import ClassVar

import torch

from minisgl_lite.core import get_global_ctx
from minisgl_lite.layers import BaseOP, OPList, ParallelLMHead, RMSNormFused, VocabParallelEmbedding

from .base import BaseLLMModel
from .config import ModelConfig
from .utils import GatedMLP as LlamaMLP
from .utils import RopeAttn as LlamaAttn


class LlamaDecoderLayer(BaseOP):
    """Attention and MLP, each behind a norm and around a residual."""

    has_attn_bias: ClassVar[bool] = False
    has_qk_norm: ClassVar[bool] = False

    def __init__(self, config: ModelConfig, layer_id: int) -> None:
        self.self_attn = LlamaAttn(
            config, layer_id, has_attn_bias=self.has_attn_bias, has_qk_norm=self.has_qk_norm
        )
        self.mlp = LlamaMLP(config)
        self.input_layernorm = RMSNormFused(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNormFused(config.hidden_size, config.rms_norm_eps)
        self._layer_id = layer_id

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(T, hidden) -> this layer's output, not yet added to the residual, and the residual.

        A residual that is handed in is changed in place.
        """
        x, residual = self.input_layernorm.forward(x, residual)
        x = self.self_attn.forward(x)
        x, residual = self.post_attention_layernorm.forward(x, residual)
        return self.mlp.forward(x), residual


class LlamaModel(BaseOP):
    """Embedding, layers and the last norm."""

    layer_class: ClassVar[type[LlamaDecoderLayer]] = LlamaDecoderLayer

    def __init__(self, config: ModelConfig) -> None:
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size)
        self.layers = OPList([self.layer_class(config, i) for i in range(config.num_layers)])
        self.norm = RMSNormFused(config.hidden_size, config.rms_norm_eps)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """(T,) ids -> (T, hidden)."""
        x = self.embed_tokens.forward(input_ids)
        residual: torch.Tensor | None = None
        for layer in self.layers.op_list:
            x, residual = layer.forward(x, residual)
        return self.norm.forward(x, residual)[0]


class LlamaForCausalLM(BaseLLMModel):
    """The whole model, from ids to logits."""

    model_class: ClassVar[type[LlamaModel]] = LlamaModel

    def __init__(self, config: ModelConfig) -> None:
        tied = config.tie_word_embeddings
        self.model = self.model_class(config)
        self.lm_head = ParallelLMHead(
            config.vocab_size,
            config.hidden_size,
            tie_word_embeddings=tied,
            tied_embedding=self.model.embed_tokens if tied else None,
        )

    def forward(self) -> torch.Tensor:
        return self.lm_head.forward(self.model.forward(get_global_ctx().batch.input_ids))
