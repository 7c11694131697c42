"""The parts of a step, technique by technique: the products of all linear layers, and attention."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from ..attention import Place
from ..attention.cpu import CpuAttnBackend
from ..kernel.attend import decode_attention_cpu
from ..kernel.blocks import Blocks, blocks_kernel_is_there, blocks_linear, dequantized
from ..layers.fast_linear import prepacked
from ..models import open_model
from .timing import Measured, take_turns

Products = list[Callable[[torch.Tensor], torch.Tensor]]


def measure_parts(model: str, rounds: int) -> list[Measured]:
    """Seconds per step: products at 1, 8 and 32 rows, attention of 8 and 32 requests."""
    source = open_model(model)
    blocks = list(source.blocks().values())
    if not blocks or not blocks_kernel_is_there():
        raise ValueError(f"{model}: no weights in blocks, or no C compiler; nothing to compare.")
    with torch.inference_mode():
        ways = _ways(blocks)
        found = [_products(ways, blocks, rows, rounds) for rows in (1, 8, 32)]
        config = source.whole_config
        heads = (config.num_qo_heads, config.num_kv_heads, config.head_dim)
        found += [_attention(bs, config.num_layers, heads, rounds) for bs in (8, 32)]
    return found


def _ways(blocks: list[Blocks]) -> dict[str, tuple[torch.dtype, Products]]:
    """Each way to multiply with all matrices of a step, and the dtype of what it takes."""
    wide = [dequantized(one) for one in blocks]
    return {
        "fp32": (torch.float32, [_linear(w) for w in wide]),
        "fp32, prepacked": (torch.float32, [_prepacked_fp32(w) for w in wide]),
        "bf16": (torch.bfloat16, [_linear(w.bfloat16()) for w in wide]),
        "bf16, prepacked": (
            torch.bfloat16,
            [product for w in wide if (product := prepacked(w.bfloat16()))],
        ),
        "the file's blocks": (torch.float32, [_over_blocks(one) for one in blocks]),
    }


def _products(
    ways: dict[str, tuple[torch.dtype, Products]], blocks: list[Blocks], rows: int, rounds: int
) -> Measured:
    sizes = [b.in_features for b in blocks]
    runs = {
        name: _timed(_all(products, {n: torch.randn(rows, n).to(dtype) for n in sizes}, sizes))
        for name, (dtype, products) in ways.items()
        if len(products) == len(sizes)
    }
    return take_turns(f"products of a step, {rows} rows", "s", runs, rounds)


def _all(products: Products, given: dict[int, torch.Tensor], sizes: list[int]) -> Any:
    return lambda: [p(given[size]) for p, size in zip(products, sizes, strict=True)]


def _linear(weight: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: F.linear(x, weight)


def _over_blocks(blocks: Blocks) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: blocks_linear(x, blocks)


def _prepacked_fp32(weight: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """What the engine does not use; it is here to be compared."""
    operations: Any = torch.ops.mkldnn
    packed = operations._reorder_linear_weight(weight)
    return lambda x: operations._linear_pointwise(x, packed, None, "none", [], "")


def _attention(bs: int, layers: int, heads: tuple[int, int, int], rounds: int) -> Measured:
    """Contexts of 144 tokens in pages of 16; every layer has a pool of its own, as in a model."""
    num_heads, kv_heads, dim = heads
    pages, page_size, length = 9, 16, 144
    pools = torch.randn(2, layers, bs * pages, page_size, kv_heads, dim)
    table = torch.randperm(bs * pages).view(bs, pages).to(torch.int32)
    lengths = torch.full((bs,), length, dtype=torch.int32)
    q = torch.randn(bs, num_heads, dim)
    slots = (table.long()[..., None] * page_size + torch.arange(page_size)).flatten(1)

    def gathered() -> None:
        for k, v in zip(*pools, strict=True):
            keys, values = (c.flatten(0, 1)[slots].transpose(1, 2) for c in (k, v))
            F.scaled_dot_product_attention(q.unsqueeze(2), keys, values, enable_gqa=True)

    def in_place() -> None:
        for k, v in zip(*pools, strict=True):
            decode_attention_cpu(q, k, v, table, lengths, scale=dim**-0.5)

    runs = {"gathered, then torch": _timed(gathered)}
    if CpuAttnBackend.why_not(Place(q.device, None, q.dtype, page_size, dim)) is None:
        runs["pages in place"] = _timed(in_place)
    return take_turns(f"attention of a step, {bs} requests", "s", runs, rounds)


def _timed(work: Callable[[], Any]) -> Callable[[], float]:
    def run() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return run
