"""How many tokens, and how many requests, a device holds: arithmetic, the same as the engine's.

``formula.js`` is the twin, for the page: the tests hold the two against each other over a grid, and
this one against the engine's own page count and admission.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...utils import div_ceil

GIB = 2**30
"""Bytes of one GiB."""


class Model(NamedTuple):
    """What the size of a KV cache hangs on, and the parameters that lie beside it."""

    name: str
    layers: int
    kv_heads: int
    head_dim: int
    billions: float
    """Parameters, in 10⁹, to three decimals."""


MODELS = (
    Model("Llama-3-8B", 32, 8, 128, 8.030),
    Model("Qwen3-0.6B", 28, 8, 128, 0.596),
    Model("SmolLM2-135M", 30, 3, 64, 0.135),
)
"""From their published ``config.json``; SmolLM2's from the file that this package reads."""


class Sizes(NamedTuple):
    """``pages_per_request``, ``waste``: of one request at its end, with nothing shared."""

    heads: int
    """KV heads on one rank."""
    bytes_per_token: int
    bytes_per_page: int
    num_pages: int
    """Pages that the scheduler manages; the pool has the dummy page on top."""
    tokens: int
    pages_per_request: int
    waste: int
    """Slots of these pages that hold no token."""
    admitted: int
    """Requests of these lengths that are live at once, with nothing shared."""


def free_bytes(memory_gib: float, billions: float, itemsize: int, ranks: int) -> int:
    """What is left of one device's memory when a rank's share of the weights lies in it.

    NOTE: an engine asks its device instead; activations, graphs and the runtime take their part.
    """
    return math.floor(memory_gib * GIB) - math.floor(billions * 1e9 * itemsize / ranks)


def sizes(
    *,
    layers: int,
    kv_heads: int,
    head_dim: int,
    itemsize: int,
    ranks: int,
    page_size: int,
    free: int,
    memory_ratio: float,
    input_len: int,
    output_len: int,
    rows: int,
) -> Sizes:
    """The sizes of one rank's cache, and how many equal requests it admits at once.

    ``free``: bytes of device memory when the weights are loaded; ``memory_ratio`` of them become
    the pool. ``rows``: ``max_running_req``. A prompt fits into one prefill batch.

    Raises:
        ValueError: a number below 1, a ratio outside (0, 1], or memory for not one page.
    """
    given = {**locals()}
    for name in WHOLE_NUMBERS:
        if given[name] < 1:
            raise ValueError(f"{name} {given[name]} is not allowed: 1 or more.")
    if not 0 < memory_ratio <= 1:
        raise ValueError(f"memory_ratio {memory_ratio} is not allowed: above 0, at most 1.")
    heads = div_ceil(kv_heads, ranks)  # some are replicated, or filled up with empty ones
    bytes_per_token = 2 * layers * heads * head_dim * itemsize
    bytes_per_page = bytes_per_token * page_size
    num_pages = math.floor(free * memory_ratio) // bytes_per_page - 1  # one is the dummy page
    if num_pages < 1:
        raise ValueError(f"{free} bytes of free memory hold no page of {bytes_per_page}.")

    written = input_len + output_len - 1  # NOTE: the last token is sampled and never written
    pages = div_ceil(written, page_size)
    need = div_ceil(input_len + output_len, page_size)
    return Sizes(
        heads,
        bytes_per_token,
        bytes_per_page,
        num_pages,
        num_pages * page_size,
        pages,
        pages * page_size - written,
        min(_admitted(num_pages, need, pages, output_len), rows),
    )


WHOLE_NUMBERS = (
    "layers",
    "kv_heads",
    "head_dim",
    "itemsize",
    "ranks",
    "page_size",
    "input_len",
    "output_len",
    "rows",
)


def _admitted(num_pages: int, need: int, pages: int, output_len: int) -> int:
    """The last to come asks for ``need`` pages; each that runs has, or was promised, ``pages``.

    A request of one output token ends in the step that admits it, and never runs beside later ones.
    """
    if output_len == 1:
        return num_pages // need
    return 1 + (num_pages - need) // pages if num_pages >= need else 0
