"""Faster ways to multiply on a CPU, put into a model's linear layers after it is loaded.

Few rows: the weight as the file has it, a fifth to a quarter of the bytes (``kernel/blocks.py``).
More rows in bf16: the weight in the order in which oneDNN's kernels walk it. Else, and wherever one
of them can't be had, the plain product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from ..kernel.blocks import Blocks, blocks_kernel_is_there, blocks_linear
from .base import BaseOP
from .embedding import ParallelLMHead
from .linear import LinearQKVMerged, _LinearTPImpl

Product = Callable[[torch.Tensor], torch.Tensor]
"""(T, in) -> (T, out), the bias added."""

MOST_ROWS = {torch.float32: 32, torch.bfloat16: 8}
"""Up to here a step through the file's blocks was faster than the product that follows, by the
dtype of its weights."""


def make_fast(model: BaseOP, blocks: Mapping[str, Blocks], dtype: torch.dtype) -> None:
    """Give each linear layer of ``model``, on a CPU and of one rank, its fastest product.

    ``blocks``: the weights that the file holds in blocks, by the names of the model's state dict.
    ``dtype``: of the weights that are multiplied with many rows; the residual, which goes from
    layer to layer, keeps the dtype that the model was loaded in.

    NOTE: a weight in another dtype or order replaces the plain one, which would double the memory;
    the layer keeps its shape alone.
    """
    use_blocks = bool(blocks) and blocks_kernel_is_there()
    for name, layer in _linear_layers(model):
        owner = getattr(layer, "tied_embedding", None) or layer
        weight, bias = owner.weight, layer.bias
        # NOTE: logits of 20 in bf16 are 0.125 apart, so the head keeps the dtype it was loaded in.
        kept = weight.dtype if isinstance(layer, ParallelLMHead) else dtype
        product = plain(weight, bias)
        if kept == torch.bfloat16:
            product = in_bf16(weight, bias, wide=isinstance(layer, LinearQKVMerged))
        if kept != weight.dtype:
            layer.weight = torch.empty_like(weight, device="meta")
        if use_blocks and name in blocks and kept in MOST_ROWS:
            product = _few_rows(blocks[name], bias, MOST_ROWS[kept], product)
        layer.product = product


def plain(weight: torch.Tensor, bias: torch.Tensor | None) -> Product:
    """The product that a layer has anyway."""
    return lambda x: F.linear(x, weight, bias)


def in_bf16(weight: torch.Tensor, bias: torch.Tensor | None, *, wide: bool = False) -> Product:
    """Weights, factors and result in bf16, in oneDNN's own order where torch offers it.

    ``wide``: the result is made fp32 again, for what does not take bf16 well: rotation. Gating
    does, and what is added to the residual is widened by the addition.
    """
    narrow = weight.bfloat16()
    multiply = prepacked(narrow) or (lambda x: F.linear(x, narrow))

    def product(x: torch.Tensor) -> torch.Tensor:
        y = multiply(x.bfloat16())
        y = y.float() if wide else y
        return y if bias is None else y + bias

    return product


def prepacked(weight: torch.Tensor) -> Product | None:
    """A product over a copy of ``weight``, bf16, in oneDNN's order; None where it can't be had.

    NOTE: two private operations of torch, the ones that its compiler puts in place of F.linear. A
    test says when they are gone.
    """
    operations: Any = torch.ops.mkldnn
    try:
        if not torch.backends.mkldnn.is_available() or not operations._is_mkldnn_bf16_supported():
            return None
        packed = operations._reorder_linear_weight(weight)
        multiply = operations._linear_pointwise
        multiply(weight.new_zeros(1, weight.shape[1]), packed, None, "none", [], "")
    except (AttributeError, RuntimeError, NotImplementedError):
        return None
    return lambda x: multiply(x, packed, None, "none", [], "")


def _few_rows(
    blocks: Blocks, bias: torch.Tensor | None, most_rows: int, otherwise: Product
) -> Product:
    def product(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > most_rows:
            return otherwise(x)
        y = blocks_linear(x, blocks)
        return y if bias is None else y + bias

    return product


def _linear_layers(op: BaseOP, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each linear layer below ``op``, the output head too, under the name of its weight."""
    for name, child in op._children():
        path = f"{prefix}{name}"
        if isinstance(child, ParallelLMHead) and child.tied_embedding is not None:
            yield "model.embed_tokens.weight", child
        elif isinstance(child, ParallelLMHead | _LinearTPImpl):
            yield f"{path}.weight", child
        elif isinstance(child, BaseOP):
            yield from _linear_layers(child, f"{path}.")
