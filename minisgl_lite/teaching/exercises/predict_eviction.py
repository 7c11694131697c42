"""Which pages does the next request push out of the tree?"""

from __future__ import annotations

import random
from typing import Any

from ...hooks import Listener
from ...toy import Toy
from ..checks.exercise import Exercise, Template, add

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class _Evictions(Listener):
    def __init__(self) -> None:
        self.page_starts: list[int] = []

    def on_evict(self, page_starts: list[int]) -> None:
        self.page_starts += page_starts


def _draw(rng: random.Random) -> dict[str, Any]:
    while True:
        page_size = rng.choice([2, 3, 4])
        letters = iter(rng.sample(LETTERS[:26], 26))
        a, b, c, d = (_take(letters, page_size) for _ in range(4))
        stories = [
            [[*a, *b, a[0]], [*a, *c, a[0]], [*d, d[0]], [*a, *b, a[0]]],
            [[*a, *b, a[0]], [*c, c[0]], [*a, *d, a[0]], [*c, c[0]]],
            [[*a, a[0]], [*b, *c, b[0]], [*d, d[0]], [*a, a[0]], [*d, d[0]]],
            [[*a, *b, a[0]], [*a, *c, a[0]], [*d, d[0]], [*d, d[0]]],
        ]
        numbers = {
            "page_size": page_size,
            "prompts": ["".join(prompt) for prompt in rng.choice(stories)],
            "num_pages": rng.randrange(5, 8),
            "last": LETTERS[26 : 26 + page_size * rng.randrange(3, 6) - rng.randrange(2)],
        }
        evicted = _solve(numbers)
        if 2 <= len(evicted) <= 4 and evicted != sorted(evicted):
            return numbers


def _take(letters: Any, count: int) -> list[str]:
    return [next(letters) for _ in range(count)]


def _text(numbers: dict[str, Any]) -> str:
    prompts = "\n".join(
        f"{at}. `{prompt}`" for at, prompt in enumerate(numbers["prompts"], start=1)
    )
    return """## Who goes next?

*About 12 minutes, 2 points. It needs [the radix tree](../book/radix-tree.ipynb).*

There are {num_pages} pages of {page_size} tokens. Each letter is a token. These prompts come one
after the other, each when the one before has ended, and each says one token, which is never
computed:

{prompts}

At first `free_slots` has all pages in ascending order. Then comes `{last}`, and there are not
enough free pages for it. Which pages are evicted? Replace `None` by the list of their page starts,
in the order in which they leave the tree.
""".format(
        num_pages=numbers["num_pages"],
        page_size=numbers["page_size"],
        prompts=prompts,
        last=numbers["last"],
    )


def _solve(numbers: dict[str, Any]) -> list[int]:
    """None are evicted, for the draw to try again, if the run does not go as the text says."""
    toy = Toy(page_size=numbers["page_size"], num_pages=numbers["num_pages"])
    toy.hooks.attach(evictions := _Evictions())
    for prompt in (*numbers["prompts"], numbers["last"]):
        if evictions.page_starts:
            return []
        toy.add([1 + LETTERS.index(letter) for letter in prompt], says=[99])
        toy.step()
        if toy.has_work:
            return []
    return evictions.page_starts


add(
    Exercise(
        name="predict-eviction",
        kind="predict",
        answer="evicted",
        objective="say which pages leave the tree when pages are short, and in which order",
        difficulty=2,
        minutes=12,
        points=2,
        page="radix-tree",
        misconceptions=("m07", "m12"),
        template=Template(_draw, _text, _solve),
        hints=(
            "Draw the tree after each prompt, with the page starts in its nodes. What fills no"
            " whole page is not in it, and goes back to the tail of the queue.",
            "Only leaves are evicted, whole, and of the leaves the one that was used longest ago. A"
            " prompt uses every node that it passes, when it comes and when it ends.",
            "Count how many pages are missing: those that the last prompt needs, less those that"
            " are free. When a node has lost its last child it is a leaf, too, with its own time.",
        ),
    )
)
