"""Attention backends by name, and the one place that chooses.

mini-sglang: attention/__init__.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..utils import Registry
from .base import BaseAttnBackend, BaseAttnMetadata, PagedMetadata

if TYPE_CHECKING:
    from ..models.config import ModelConfig


class BackendCreator(Protocol):
    """Makes a backend for the current context's pool, page table and page size."""

    def __call__(self, config: ModelConfig) -> BaseAttnBackend: ...


SUPPORTED_ATTENTION_BACKENDS: Registry[BackendCreator] = Registry("attention backend")


@SUPPORTED_ATTENTION_BACKENDS.register("torch")
def create_torch_backend(config: ModelConfig) -> BaseAttnBackend:
    from .torch_ref import TorchAttnBackend

    return TorchAttnBackend(config)


def validate_attn_backend(backend: str, allow_auto: bool = True) -> str:
    """Raises ValueError unless ``backend`` is registered, or "auto" where that is allowed."""
    if not (allow_auto and backend == "auto"):
        SUPPORTED_ATTENTION_BACKENDS.assert_supported(backend)
    return backend


def create_attention_backend(backend: str, config: ModelConfig) -> BaseAttnBackend:
    """The backend called ``backend``; "auto" takes the best that works here."""
    name = validate_attn_backend(backend)
    return SUPPORTED_ATTENTION_BACKENDS["torch" if name == "auto" else name](config)


__all__ = [
    "SUPPORTED_ATTENTION_BACKENDS",
    "BackendCreator",
    "BaseAttnBackend",
    "BaseAttnMetadata",
    "PagedMetadata",
    "create_attention_backend",
    "validate_attn_backend",
]
