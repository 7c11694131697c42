"""Which page is meant by a number in free_slots, and which slots does it expand to?"""

from __future__ import annotations

import random
from typing import Any

import torch

from ...toy import Toy
from ..checks.exercise import Exercise, Template, add


def _draw(rng: random.Random) -> dict[str, Any]:
    page_size = rng.choice([2, 3, 4, 5, 8])
    pages = rng.sample(range(1, 12), 4)
    return {"page_size": page_size, "free": [page * page_size for page in pages]}


def _text(numbers: dict[str, Any]) -> str:
    return """## From a number in the queue to slots

*About 5 minutes, 1 point. It needs [free pages](../book/free-pages.ipynb).*

Pages hold {page_size} tokens, and `free_slots` is {free}. A request takes two pages; look at the
second, **{start}**. Which page is that, and to which slots does it expand, in the order in which
the request uses them? Replace `None` by a dict: `{{"page": …, "slots": […]}}`.
""".format(start=numbers["free"][1], **numbers)


def _solve(numbers: dict[str, Any]) -> dict[str, Any]:
    page_size = numbers["page_size"]
    toy = Toy(page_size=page_size, num_pages=12, cache_type="naive")
    toy.cache_manager.free_slots = torch.tensor(numbers["free"], dtype=torch.int32)
    toy.add(list(range(1, 2 * page_size + 1)), says=[1, 1])
    toy.step()
    (req,) = toy.live_reqs()
    slots = toy.engine.page_table[req.table_idx, page_size : 2 * page_size].tolist()
    return {"page": slots[0] // page_size, "slots": slots}


add(
    Exercise(
        name="predict-expansion",
        kind="predict",
        answer="expansion",
        objective="say which page a number in free_slots means, and which slots it expands to",
        difficulty=1,
        minutes=5,
        points=1,
        page="free-pages",
        misconceptions=("m01",),
        template=Template(_draw, _text, _solve),
        hints=(
            "free_slots holds page starts: of each free page the slot of its first token.",
            "Page 0 begins at slot 0, page 1 at slot P, page 2 at slot 2 · P.",
            "The page is the page start divided by P. Its slots are the page start plus 0, 1, …,"
            " P - 1.",
        ),
    )
)
