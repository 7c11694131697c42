"""What stands in free_slots after some steps?"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

from ...toy import Toy
from ..checks.exercise import Exercise, Template, add


def _draw(rng: random.Random) -> dict[str, Any]:
    while True:
        page_size = rng.choice([2, 3, 4])
        numbers = {
            "page_size": page_size,
            "num_pages": rng.randrange(7, 11),
            "prompts": [rng.randrange(1, 2 * page_size + 2) for _ in range(3)],
            "outputs": [rng.randrange(1, 6) for _ in range(3)],
        }
        numbers["step"] = rng.randrange(2, 6)
        if _interesting(numbers):
            return numbers


def _interesting(numbers: dict[str, Any]) -> bool:
    """All start together; pages came back, one request still runs, one took a page in decode."""
    queues = _queues(numbers)
    if len(queues) < numbers["step"]:
        return False
    last, running = queues[-1], max(numbers["outputs"]) > numbers["step"]
    taken_later = any(len(set(a) - set(b)) > 0 for a, b in pairwise(queues))
    return running and taken_later and 2 <= len(last) <= 6 and last != sorted(last)


def _text(numbers: dict[str, Any]) -> str:
    requests = "\n".join(
        f"- request {uid}: a prompt of {prompt} tokens, and it says {output}"
        for uid, (prompt, output) in enumerate(
            zip(numbers["prompts"], numbers["outputs"], strict=True), start=1
        )
    )
    return """## The queue after some steps

*About 10 minutes, 2 points. It needs [free pages](../book/free-pages.ipynb).*

There are {num_pages} pages of {page_size} tokens, all free, and `free_slots` is as an engine
makes it. The cache is the naive one: it keeps nothing. Three requests come together and run in the
same batches:

{requests}

Step 1 computes their prompts, each further step one token of each that still runs. In a step the
requests take their pages in the order of their numbers; those that end in a step return their pages
at its end, in the same order. What is in `free_slots` after step {step}, from head to tail? Replace
`None` by a list.
""".format(requests=requests, **numbers)


def _solve(numbers: dict[str, Any]) -> list[int]:
    return _queues(numbers)[-1]


def _queues(numbers: dict[str, Any]) -> list[list[int]]:
    """``free_slots`` after each step; none if a request has to wait for another's pages."""
    toy = Toy(page_size=numbers["page_size"], num_pages=numbers["num_pages"], cache_type="naive")
    for uid, (prompt, output) in enumerate(
        zip(numbers["prompts"], numbers["outputs"], strict=True), start=1
    ):
        toy.add([10 * uid + i for i in range(prompt)], says=[1] * output)
    queues = []
    for _ in range(numbers["step"]):
        toy.step()
        if toy.prefill_manager.pending_list:
            return []
        queues.append(toy.cache_manager.free_slots.tolist())
        if not toy.has_work:
            break
    return queues


add(
    Exercise(
        name="predict-free-list",
        kind="predict",
        answer="free_list",
        objective="follow the queue of free pages while requests take pages, grow and end",
        difficulty=2,
        minutes=10,
        points=2,
        page="free-pages",
        misconceptions=("m01", "m04"),
        template=Template(_draw, _text, _solve),
        hints=(
            "Pages are taken at the head of the queue and return at its tail. Nobody sorts it.",
            "The step that computes position p takes a page exactly when p is a multiple of P. A"
            " request that says m tokens runs for m steps; its last token is never computed.",
            "Keep a list of pages for each request. Per step: first all take, request 1 before 2"
            " before 3; then those with as many tokens said as they may say return their lists,"
            " each in the order in which it took them.",
        ),
    )
)
