"""How many pages fit into the memory of some GPUs, for a model given by its config.json."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from ...core import Context
from ...distributed import DistributedInfo
from ...engine import Engine
from ...engine.config import EngineConfig
from ...llm import LLM
from ...models.config import ModelConfig
from ...models.tiny import TINY_CONFIG
from ...trace import Trace
from ..checks import expect
from ..checks.exercise import Exercise, add
from ..checks.learner import Learner, Wrong
from ..checks.lockstep import play


def _config(
    layers: int, heads: int, head_dim: int | None, hidden: int, **more: int
) -> dict[str, Any]:
    """A checkpoint's ``config.json``; ``more``: ``num_key_value_heads``, where it has the entry."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": hidden,
        "intermediate_size": 4 * hidden,
        "max_position_embeddings": 8192,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "rms_norm_eps": 1e-5,
        "vocab_size": 32000,
        **({} if head_dim is None else {"head_dim": head_dim}),
        **more,
    }


MODELS = {
    "a model with 8 KV heads for 32 query heads": _config(
        32, 32, None, 4096, num_key_value_heads=8
    ),
    "a model whose head_dim is no share of hidden_size": _config(
        28, 16, 128, 1024, num_key_value_heads=8
    ),
    "a model without num_key_value_heads": _config(12, 12, None, 768),
    "a model with 3 KV heads": _config(30, 9, None, 576, num_key_value_heads=3),
}


def _check(learner: Learner, rng: random.Random) -> None:
    for name, config in MODELS.items():
        for ranks in (1, 2, 8):
            dtype = rng.choice(["bfloat16", "float32"])
            page_size = rng.choice([1, 16, 64])
            pages = [rng.randrange(3, 2000) for _ in range(ranks)]
            _compare_one(learner, name, config, pages, rng, page_size, dtype)
    _borders(learner, rng)
    _in_an_engine(learner, rng)


def _compare_one(
    learner: Learner,
    name: str,
    config: dict[str, Any],
    pages: list[int],
    rng: random.Random,
    page_size: int,
    dtype: str,
) -> None:
    """``pages``: for how many each rank has memory; a rest that holds no page comes on top."""
    size = _page_bytes(config, len(pages), page_size, dtype)
    free = [count * size + rng.randrange(size) for count in pages]
    _ask(learner, name, config, free, page_size, dtype)


def _borders(learner: Learner, rng: random.Random) -> None:
    """Memory for exactly so many pages, one byte less, one page, nothing."""
    name, config = "a small model", _config(2, 4, 8, 32, num_key_value_heads=2)
    page_size = rng.choice([2, 4])
    size = _page_bytes(config, 1, page_size, "float32")
    for free in (5 * size, 5 * size - 1, 2 * size, size, size - 1, 0):
        _ask(learner, name, config, [free], page_size, "float32")
    _ask(learner, name, config, [9 * size, 0], page_size, "float32")


def _ask(
    learner: Learner,
    name: str,
    config: dict[str, Any],
    free: list[int],
    page_size: int,
    dtype: str,
) -> None:
    called = f"kv_budget for {name}, {len(free)} rank(s), P = {page_size}, {dtype}, free = {free}:"
    found = expect.whole(learner(config, free, page_size, dtype), called)
    right = engine_pages(config, free, page_size, dtype)
    if found == right:
        return
    size = _page_bytes(config, len(free), page_size, dtype)
    if found == right + 1:
        raise Wrong(
            f"{called} {found} pages; the scheduler manages {right}: of the {min(free) // size}"
            f" pages that fit, each of {size} bytes, one is the dummy page",
            "m14",
        )
    if min(free) < 2 * size:
        raise Wrong(f"{called} {found} pages; no page is left for the scheduler: 0")
    raise Wrong(
        f"{called} {found} pages; the engine takes {right}: a page has {size} bytes on each rank,"
        f" and {min(free)} bytes are free on the rank that has least"
    )


def engine_pages(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    """What the engine's ranks agree on when the device of each has so much free memory."""
    counts = []
    for rank, memory in enumerate(free):
        engine = _on_paper(config, rank, len(free), page_size, dtype)
        settings = EngineConfig(page_size=page_size, memory_ratio=1.0)
        with patch.object(torch.cuda, "mem_get_info", return_value=(memory, memory)):
            try:
                counts.append(engine._determine_num_pages(settings))
            except ValueError:  # not one page: such an engine does not start
                counts.append(0)
    return min(counts)


def _page_bytes(config: dict[str, Any], ranks: int, page_size: int, dtype: str) -> int:
    return _on_paper(config, 0, ranks, page_size, dtype)._bytes_per_page(page_size)


def _on_paper(config: dict[str, Any], rank: int, ranks: int, page_size: int, dtype: str) -> Engine:
    """As much of an engine as knows its model's shape and its rank."""
    model = ModelConfig.from_hf(config).filled_up(ranks)
    engine = Engine.__new__(Engine)
    engine.device = torch.device("cuda")
    engine.dtype = getattr(torch, dtype)
    engine.ctx = Context(page_size, tp_info=DistributedInfo(rank, ranks))
    engine.loaded = SimpleNamespace(source=SimpleNamespace(config=model))  # type: ignore[assignment]
    return engine


def _in_an_engine(learner: Learner, rng: random.Random) -> None:
    """A pool of that many pages and the dummy page fits, and with one more it would not."""
    config = _config(
        TINY_CONFIG.num_layers,
        TINY_CONFIG.num_qo_heads,
        TINY_CONFIG.head_dim,
        TINY_CONFIG.hidden_size,
        num_key_value_heads=TINY_CONFIG.num_kv_heads,
    )
    memory = rng.randrange(20_000, 60_000)
    pages = expect.whole(learner(config, [memory], 4, "float32"), "kv_budget")
    with LLM("tiny", page_size=4, num_pages=pages, device="cpu") as llm:
        buffer = llm.engine.kv_cache.k_cache(0)
        total = 2 * TINY_CONFIG.num_layers * buffer.nbytes
        if not total <= memory < total + total // (pages + 1):
            raise Wrong(_not_so_many(pages, total, memory))


def _not_so_many(pages: int, total: int, memory: int) -> str:
    return f"an engine with your {pages} pages has a pool of {total} of {memory} bytes"


SCENE_BYTES = 1100
"""What a toy's pool gets: eight pages of 128 bytes, and a rest."""


def _scene(learner: Learner) -> tuple[Trace, str | None]:
    """A toy with as many pages as the learner says: its pool has two layers, one head, float64."""
    config = _config(2, 1, 1, 1, num_key_value_heads=1)
    pages = expect.whole(learner(config, [SCENE_BYTES], 4, "float64"), "kv_budget")
    if not 1 <= pages <= 100:  # more can be neither drawn nor believed
        raise Wrong(f"kv_budget says {pages} pages for {SCENE_BYTES} bytes: there is no such pool")
    trace, text = play(num_pages=pages)
    total = (pages + 1) * _page_bytes(config, 1, 4, "float64")
    if pages != engine_pages(config, [SCENE_BYTES], 4, "float64"):
        text = _not_so_many(pages, total, SCENE_BYTES)
    return trace, text


add(
    Exercise(
        name="kv-budget",
        kind="build",
        answer="kv_budget",
        objective="compute how many pages an engine can manage from a model's shape and the memory",
        difficulty=2,
        minutes=25,
        points=6,
        page="pool-dimensions",
        misconceptions=("m14", "m10"),
        counterparts=(
            "minisgl_lite.engine.engine:Engine._determine_num_pages",
            "minisgl_lite.engine.engine:Engine._bytes_per_page",
            "minisgl_lite.viz.sizing.formula:sizes",
        ),
        hints=(
            "Write the bytes of one page on one rank first: K and V, all layers, P tokens, the KV"
            " heads of this rank, the numbers of a head, the bytes of a number"
            " (`getattr(torch, dtype).itemsize`).",
            "A rank's share of the KV heads is the number of heads divided by the number of ranks,"
            " rounded up: no rank has less than one, and where they can't be shared evenly the"
            " engine adds empty ones. Two entries of config.json may be missing; the text says what"
            " stands for them.",
            "The rank with the least memory decides for all. Of the pages that fit there, one is"
            " the dummy page; the scheduler never sees it. max(0, …) for the case that none fits.",
        ),
        check=_check,
        scene=_scene,
    )
)
