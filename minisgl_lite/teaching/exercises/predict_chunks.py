"""Which tokens stand in which prefill step, under a budget?"""

from __future__ import annotations

import random
from typing import Any

from ...hooks import Listener
from ...scheduler import ForwardInput
from ...toy import Toy
from ..checks.exercise import Exercise, Template, add

Span = tuple[int, int, int]
"""Request, first position, end."""


class _Spans(Listener):
    """Of each prefill step, in the order of the batch."""

    def __init__(self) -> None:
        self.steps: list[list[Span]] = []

    def on_prepare(self, forward_input: ForwardInput) -> None:
        batch = forward_input.batch
        if batch.is_prefill:
            spans = [(req.uid - 1, req.cached_len, req.device_len) for req in batch.reqs]
            self.steps.append(spans)


def _draw(rng: random.Random) -> dict[str, Any]:
    while True:
        page_size = rng.choice([2, 3, 4])
        cached = page_size * rng.randrange(1, 3)
        numbers = {
            "page_size": page_size,
            "budget": rng.randrange(4, 8),
            "cached": cached,
            "prompts": [
                rng.randrange(5, 12),
                cached + rng.randrange(2, 8),
                rng.randrange(2, 7),
            ],
        }
        steps = _solve(numbers)
        # A step that holds parts of two prompts, and a prompt cut off the page border.
        shared = any(len(spans) > 1 for spans in steps)
        ragged = any(end % page_size for spans in steps[:-1] for _, _, end in spans)
        if shared and ragged and 3 <= len(steps) <= 5:
            return numbers


def _text(numbers: dict[str, Any]) -> str:
    a, b, c = numbers["prompts"]
    return """## Which tokens in which step?

*About 10 minutes, 2 points. It needs [chunked prefill](../book/chunked-prefill.ipynb).*

Pages hold {page_size} tokens, and the budget of a prefill step is {budget} tokens. Three requests
arrive together: 1 with a prompt of {a} tokens, 2 with {b}, 3 with {c}. The first {cached} tokens of
2's prompt are in the radix cache, and no others; there is room for all of them.

Which positions are computed in each prefill step, until all prompts are done? Replace `None` by a
list with an entry for each step: a list of `(request, start, end)` in the order of the batch,
where `end` is the position after the last.
""".format(
        page_size=numbers["page_size"],
        budget=numbers["budget"],
        cached=numbers["cached"],
        a=a,
        b=b,
        c=c,
    )


def _solve(numbers: dict[str, Any]) -> list[list[Span]]:
    toy = Toy(page_size=numbers["page_size"], num_pages=32, max_extend_tokens=numbers["budget"])
    cached = list(range(500, 500 + numbers["cached"]))
    toy.add(cached, says=[1, 1])
    toy.run()
    toy.hooks.attach(spans := _Spans())
    for at, length in enumerate(numbers["prompts"]):
        ids = list(range(100 * at + 1, 100 * at + 1 + length))
        toy.add((cached + ids)[:length] if at == 1 else ids, says=[1, 1])
    toy.run()
    return spans.steps


add(
    Exercise(
        name="predict-chunks",
        kind="predict",
        answer="chunks",
        objective="say which positions of which prompts each prefill step computes",
        difficulty=2,
        minutes=10,
        points=2,
        page="chunked-prefill",
        misconceptions=("m03", "m05"),
        template=Template(_draw, _text, _solve),
        hints=(
            "The budget counts the tokens that a step computes. What is found in the cache is not"
            " computed and costs nothing of it.",
            "Prompts are taken in order of arrival. The one that doesn't fit is cut where the"
            " budget ends, on a page border or not, and goes on at the head of the next step.",
            "What is left of a step's budget after the rest of a prompt goes to the next prompt,"
            " in the same step. Each start is the end of the part before.",
        ),
    )
)
