"""Mistral, dense (mini-sglang: models/mistral.py): Llama within the sliding window."""

from __future__ import annotations

from .llama import LlamaForCausalLM


class MistralForCausalLM(LlamaForCausalLM):
    """``ModelConfig`` ends the context at the window, inside which every token is seen."""
