"""A compact LLM engine with a paged KV cache, made to be watched.

Names follow mini-sglang, so that a reader of one finds their way in the other; the code is our own.
"""

from .core import Batch, Context, Req, SamplingParams, get_global_ctx, set_global_ctx, use_ctx
from .llm import LLM, TokenEvent

__version__ = "0.1.0"

__all__ = [
    "LLM",
    "Batch",
    "Context",
    "Req",
    "SamplingParams",
    "TokenEvent",
    "get_global_ctx",
    "set_global_ctx",
    "use_ctx",
]
