"""Qwen2 and Qwen2.5, dense (mini-sglang: models/qwen2.py): Llama with biases on q, k and v."""

from __future__ import annotations

from .llama import LlamaDecoderLayer, LlamaForCausalLM, LlamaModel


class Qwen2DecoderLayer(LlamaDecoderLayer):
    has_attn_bias = True


class Qwen2Model(LlamaModel):
    layer_class = Qwen2DecoderLayer


class Qwen2ForCausalLM(LlamaForCausalLM):
    model_class = Qwen2Model
