"""Attention backends by name, and the one place that chooses.

mini-sglang: attention/__init__.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..core import get_global_ctx
from ..utils import Registry
from .base import BaseAttnBackend, BaseAttnMetadata, HybridBackend, Place
from .cpu import CpuAttnBackend
from .fa import PAGED_MULTIPLE, FlashAttentionBackend
from .paged import PagedMetadata
from .torch_ref import TorchAttnBackend
from .triton_paged import TritonAttnBackend

if TYPE_CHECKING:
    from ..models.config import ModelConfig

SUPPORTED_ATTENTION_BACKENDS: Registry[type[BaseAttnBackend]] = Registry("attention backend")
"""Classes that make a backend from a ``ModelConfig`` and the current context."""

# None of these modules imports triton or flash-attn before its backend is made.
SUPPORTED_ATTENTION_BACKENDS.register("torch")(TorchAttnBackend)
SUPPORTED_ATTENTION_BACKENDS.register("cpu")(CpuAttnBackend)
SUPPORTED_ATTENTION_BACKENDS.register("triton")(TritonAttnBackend)
SUPPORTED_ATTENTION_BACKENDS.register("fa")(FlashAttentionBackend)


def validate_attn_backend(backend: str, allow_auto: bool = True) -> str:
    """Returns ``backend``: a registered name, a pair "prefill,decode", or "auto" where allowed.

    Raises:
        ValueError: it is none of these.
    """
    if allow_auto and backend == "auto":
        return backend
    names = backend.split(",")
    if len(names) > 2:
        raise ValueError(
            f"attention backend {backend!r} names {len(names)} backends; one, or a pair"
            " 'prefill,decode', is allowed."
        )
    SUPPORTED_ATTENTION_BACKENDS.assert_supported(names)
    return backend


def choose_attn_backend(place: Place) -> str:
    """What "auto" stands for at ``place``; "torch" runs anywhere.

    flash-attn where it can page; our kernels where it can't, or isn't there. Before capability 8.0
    Triton has no tensor-core path, and prefill, which is bound by products, is left to torch.
    """
    if place.page_size % PAGED_MULTIPLE == 0 and FlashAttentionBackend.why_not(place) is None:
        return "fa"
    if CpuAttnBackend.why_not(place) is None:
        return "cpu"
    # Not in the interpreter, which is for looking at kernels.
    if place.capability is None or TritonAttnBackend.why_not(place) is not None:
        return "torch"
    return "triton" if place.capability >= (8, 0) else "torch,triton"


def create_attention_backend(backend: str, config: ModelConfig) -> BaseAttnBackend:
    """The backend called ``backend``, for the current context's pool, page table and page size.

    "auto" takes the best that works here; "prefill,decode" makes a ``HybridBackend``.

    Raises:
        ValueError: the name is unknown, or it can't run here; the message says what can.
    """
    place = _place(config)
    validate_attn_backend(backend)
    if backend == "auto":
        backend = choose_attn_backend(place)
    names = backend.split(",")
    for name in names:
        reason = SUPPORTED_ATTENTION_BACKENDS[name].why_not(place)
        if reason is not None:
            raise ValueError(
                f"attention backend {name!r} can't run here: {reason};"
                f" {choose_attn_backend(place)!r} works here."
            )
    backends = [_create(name, config) for name in dict.fromkeys(names)]
    return HybridBackend(*backends) if len(backends) == 2 else backends[0]


def _create(name: str, config: ModelConfig) -> BaseAttnBackend:
    return SUPPORTED_ATTENTION_BACKENDS[name](config)  # type: ignore[call-arg]


def _place(config: ModelConfig) -> Place:
    ctx = get_global_ctx()
    device = ctx.kv_cache.device
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    return Place(device, capability, ctx.kv_cache.dtype, ctx.page_size, config.head_dim)


__all__ = [
    "SUPPORTED_ATTENTION_BACKENDS",
    "BaseAttnBackend",
    "BaseAttnMetadata",
    "CpuAttnBackend",
    "FlashAttentionBackend",
    "HybridBackend",
    "PagedMetadata",
    "Place",
    "TorchAttnBackend",
    "TritonAttnBackend",
    "choose_attn_backend",
    "create_attention_backend",
    "validate_attn_backend",
]
