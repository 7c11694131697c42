"""How many bytes do a token and a page of a model's K and V take?"""

from __future__ import annotations

import random
from typing import Any

import torch

from ...distributed import DistributedInfo, use_tp_info
from ...kvcache import MHAKVCache
from ..checks.exercise import Exercise, Template, add


def _draw(rng: random.Random) -> dict[str, Any]:
    while True:
        kv_heads = rng.choice([2, 4, 8])
        numbers: dict[str, Any] = {
            "layers": rng.randrange(10, 41),
            "kv_heads": kv_heads,
            "heads": kv_heads * rng.choice([2, 3, 4, 7]),
            "head_dim": rng.choice([64, 96, 128]),
            "dtype": rng.choice(["bfloat16", "float16", "float32"]),
            "page_size": rng.choice([8, 16, 32]),
            "ranks": rng.choice([2, kv_heads, 2 * kv_heads]),
        }
        if numbers["heads"] % numbers["ranks"] == 0:
            return numbers


def _text(numbers: dict[str, Any]) -> str:
    return """## What a page costs

*About 8 minutes, 1 point. It needs [the pool's six dimensions](../book/pool-dimensions.ipynb).*

A model has {layers} layers, {heads} query heads and {kv_heads} KV heads; each head is a vector of
{head_dim} numbers. It runs on {ranks} GPUs (tensor parallel), keeps K and V in `{dtype}`, and pages
hold {page_size} tokens. How many bytes of one GPU's pool does a token take, in all layers together,
and how many does a page take? Replace `None` by a dict: `{{"token": …, "page": …}}`.
""".format(**numbers)


def _solve(numbers: dict[str, Any]) -> dict[str, int]:
    with use_tp_info(DistributedInfo(rank=0, size=numbers["ranks"])):
        pool = MHAKVCache(
            num_kv_heads=numbers["kv_heads"],
            num_layers=numbers["layers"],
            head_dim=numbers["head_dim"],
            num_pages=1,
            page_size=numbers["page_size"],
            dtype=getattr(torch, numbers["dtype"]),
            device=torch.device("meta"),  # a shape without memory
        )
    page = pool._kv_buffer.nbytes
    return {"token": page // numbers["page_size"], "page": page}


add(
    Exercise(
        name="predict-bytes",
        kind="predict",
        answer="kv_bytes",
        objective="compute the bytes of a token and of a page from a model's shape",
        difficulty=1,
        minutes=8,
        points=1,
        page="pool-dimensions",
        misconceptions=("m10",),
        template=Template(_draw, _text, _solve),
        hints=(
            "A token has a K and a V in every layer, and each of the two has one vector for every"
            " KV head. Query heads leave nothing behind.",
            "Each GPU keeps its share of the KV heads. Where there are more GPUs than KV heads,"
            " several keep the same one; none has less than one.",
            "2 · layers · (KV heads of one GPU) · numbers per head · bytes per number is a token:"
            " bfloat16 and float16 take 2 bytes, float32 takes 4. A page is P tokens.",
        ),
    )
)
