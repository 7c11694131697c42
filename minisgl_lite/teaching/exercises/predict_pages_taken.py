"""In which steps does a request take a page?"""

from __future__ import annotations

import random
from typing import Any

from ...toy import Toy
from ...trace import Recorder
from ..checks.exercise import Exercise, Template, add


def _draw(rng: random.Random) -> dict[str, Any]:
    while True:
        page_size = rng.choice([2, 3, 4, 5])
        prompt, output = rng.randrange(3, 12), rng.randrange(5, 9)
        numbers = {"page_size": page_size, "prompt": prompt, "output": output}
        taken = _solve(numbers)
        # A border is crossed while decoding, and not in every step.
        if 0 < sum(count > 0 for count in taken[1:]) < output - 1 and taken[0] > 1:
            return numbers


def _text(numbers: dict[str, Any]) -> str:
    return """## In which steps is a page taken?

*About 5 minutes, 1 point. It needs [write locations](../book/write-locations.ipynb).*

Pages hold {page_size} tokens and the cache is empty. One request comes, with a prompt of {prompt}
tokens, and says {output} tokens. Step 1 computes the whole prompt, each further step one token. How
many pages does it take in each of the {output} steps? Replace `None` by a list of {output} numbers.
""".format(**numbers)


def _solve(numbers: dict[str, Any]) -> list[int]:
    toy = Toy(page_size=numbers["page_size"], num_pages=32)
    with Recorder(toy) as recorder:
        toy.add(list(range(1, numbers["prompt"] + 1)), says=[1] * numbers["output"])
        toy.run()
    taken = [0] * numbers["output"]
    for frame in recorder.trace().frames:
        for _, first, last, _ in frame.get("alloc", ()):
            taken[frame["turn"] - 1] += last - first
    return taken


add(
    Exercise(
        name="predict-pages-taken",
        kind="predict",
        answer="pages_taken",
        objective="say in which steps a request takes a page, and how many",
        difficulty=1,
        minutes=5,
        points=1,
        page="write-locations",
        misconceptions=("m04",),
        template=Template(_draw, _text, _solve),
        hints=(
            "A step takes a page when a token that it computes has no place on the pages so far.",
            "Step 1 needs ceil(prompt / P) pages. The step that computes position p takes one more"
            " exactly when p is a multiple of P.",
            "Step 2 computes the position after the prompt, step 3 the one after that. The last"
            " token that is said is never computed: it gets no K and V.",
        ),
    )
)
