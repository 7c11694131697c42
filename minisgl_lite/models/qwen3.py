"""Qwen3, dense (mini-sglang: models/qwen3.py): Llama with a norm on each query and key head."""

from __future__ import annotations

from .llama import LlamaDecoderLayer, LlamaForCausalLM, LlamaModel


class Qwen3DecoderLayer(LlamaDecoderLayer):
    has_qk_norm = True


class Qwen3Model(LlamaModel):
    layer_class = Qwen3DecoderLayer


class Qwen3ForCausalLM(LlamaForCausalLM):
    model_class = Qwen3Model
