"""A grid of questions to the sizing formula, with Python's answers.

``python -m tests.viz.sizes_grid`` writes ``tests/js/sizes.json`` for node's tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from minisgl_lite.viz.sizing import MODELS, free_bytes, sizes

FIXTURE = Path(__file__).parent.parent / "js" / "sizes.json"

LENGTHS = ((1, 1), (15, 1), (16, 1), (15, 2), (16, 16), (1000, 201), (8191, 1024))
WRONG = (
    {"layers": 0},
    {"rows": 0},
    {"page_size": -4},
    {"memory_ratio": 0},
    {"memory_ratio": 1.5},
    {"free": 0},
    {"free": -5},
    {"free": 1500},
)


def questions() -> Iterator[dict[str, Any]]:
    """Models, bytes, ranks, page sizes, lengths; then one wrong number at a time."""
    for model, (itemsize, ranks), (page_size, memory), (input_len, output_len) in product(
        MODELS, ((2, 1), (2, 2), (1, 16), (4, 3)), ((1, 24), (16, 79.65), (256, 20.5)), LENGTHS
    ):
        yield {
            "layers": model.layers,
            "kv_heads": model.kv_heads,
            "head_dim": model.head_dim,
            "itemsize": itemsize,
            "ranks": ranks,
            "page_size": page_size,
            "free": free_bytes(memory, model.billions, itemsize, ranks),
            "memory_ratio": 0.9 if memory == 24 else 0.87,
            "input_len": input_len,
            "output_len": output_len,
            "rows": 10**6 if page_size == 1 else 256,
        }
    good = next(questions_of_one())
    for wrong in WRONG:
        yield good | wrong


def questions_of_one() -> Iterator[dict[str, Any]]:
    shape = {"layers": 2, "kv_heads": 2, "head_dim": 8, "itemsize": 4, "ranks": 1}
    run = {"page_size": 4, "free": 10**6, "memory_ratio": 0.9, "input_len": 5, "output_len": 3}
    yield {**shape, **run, "rows": 8}


def answerable(num_pages: int, page_size: int) -> dict[str, Any]:
    """All but the lengths, so that there are ``num_pages`` pages: a token is 4 bytes here."""
    shape = {"layers": 1, "kv_heads": 1, "head_dim": 2, "itemsize": 1, "ranks": 1}
    free = (num_pages + 1) * page_size * 4
    return {**shape, "page_size": page_size, "free": free, "memory_ratio": 1, "rows": 64}


def answer(question: dict[str, Any]) -> dict[str, int] | str:
    try:
        return sizes(**question)._asdict()
    except ValueError as error:
        return str(error)


def free_questions() -> Iterator[tuple[float, float, int, int]]:
    yield from product((1, 24, 79.65, 141.1), (0.135, 8.03, 70.554), (1, 2, 4), (1, 2, 3))


def fixture() -> str:
    data = {
        "sizes": [[question, answer(question)] for question in questions()],
        "free": [[question, free_bytes(*question)] for question in free_questions()],
    }
    lines = (
        f'"{name}": [\n' + ",\n".join(json.dumps(pair) for pair in pairs) + "\n]"
        for name, pairs in data.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FIXTURE.write_text(fixture(), encoding="utf-8")
