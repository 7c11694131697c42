"""The grid of a chapter: five page sizes, two prefix caches, three sets of prompts."""

from __future__ import annotations

from minisgl_lite.toy import Toy
from minisgl_lite.viz import Variants, variants

Told = list[tuple[str, str]]

PROMPTS: dict[str, Told] = {
    "alike": [
        ("the cat sat on the mat and looked", "at me ."),
        ("the cat sat on the sofa", "too ."),
        ("the cat sat on the mat again", "and slept . and slept"),
    ],
    "strangers": [
        ("one two three four five six seven", "eight nine ten"),
        ("a b c d", "e f g h"),
        ("left right", "up down up down"),
    ],
    "one long": [
        (" ".join(f"w{i}" for i in range(20)), "and so on and on and on"),
        ("w0 w1 w2 w3 then", "not"),
        ("short", "answer"),
    ],
}


def make(page_size: int, cache_type: str, prompts: Told) -> Toy:
    """64 slots, whatever the page size."""
    toy = Toy(page_size=page_size, num_pages=64 // page_size, cache_type=cache_type)
    for prompt, answer in prompts:
        toy.add(prompt, says=answer)
    return toy


def chapter_grid() -> Variants:
    return variants(
        make,
        page_size=(1, 2, 4, 8, 16),
        cache_type=("naive", "radix"),
        prompts=PROMPTS,
    )
