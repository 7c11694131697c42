"""Where do the requests of a padded decode step write, and where the dummies?"""

from __future__ import annotations

import random
from typing import Any

from ...hooks import Listener
from ...scheduler import ForwardInput
from ...toy import Toy
from ..checks.exercise import Exercise, Template, add


class _OutLoc(Listener):
    def __init__(self) -> None:
        self.steps: list[tuple[str, int, list[int]]] = []

    def on_prepare(self, forward_input: ForwardInput) -> None:
        batch = forward_input.batch
        self.steps.append((batch.phase, batch.size, batch.out_loc.tolist()))


def _draw(rng: random.Random) -> dict[str, Any]:
    while True:
        page_size = rng.choice([2, 3, 4, 5])
        count = rng.randrange(3, 6)
        numbers: dict[str, Any] = {
            "page_size": page_size,
            "num_pages": rng.randrange(14, 21),
            "sizes": rng.choice([[2, 4, 8], [4, 8], [3, 6], [1, 4, 6], [2, 6]]),
            "prompts": [rng.randrange(2, 2 * page_size + 2) for _ in range(count)],
            "outputs": [rng.randrange(1, 6) for _ in range(count)],
            "step": rng.randrange(2, 5),
        }
        steps = _steps(numbers)
        if len(steps) < numbers["step"]:
            continue
        phase, size, out_loc = steps[-1]
        # Somebody has ended, two or more go on, and the batch is filled up.
        if phase == "decode" and 2 <= size < count and len(out_loc) > size:
            return numbers


def _text(numbers: dict[str, Any]) -> str:
    requests = "\n".join(
        f"- request {uid}: a prompt of {prompt} tokens, and it says {output}"
        for uid, (prompt, output) in enumerate(
            zip(numbers["prompts"], numbers["outputs"], strict=True), start=1
        )
    )
    return """## A batch that is filled up

*About 12 minutes, 2 points. It needs
[CUDA graphs and padding](../book/cuda-graph-padding.ipynb).*

The scheduler has {num_pages} pages of {page_size} tokens, all free, in the order in which an engine
starts. Graphs were captured for batches of {sizes} requests. The cache is the naive one. These
requests come together:

{requests}

Step 1 computes their prompts; each further step decodes those that still run. In every step pages
are taken for the requests in the order of their numbers. What is `out_loc` in step {step}, from
first to last? Replace `None` by a list of slots.
""".format(
        num_pages=numbers["num_pages"],
        page_size=numbers["page_size"],
        sizes=", ".join(map(str, numbers["sizes"])),
        requests=requests,
        step=numbers["step"],
    )


def _solve(numbers: dict[str, Any]) -> list[int]:
    return _steps(numbers)[-1][2]


def _steps(numbers: dict[str, Any]) -> list[tuple[str, int, list[int]]]:
    """Phase, requests and ``out_loc`` of the steps up to the one that is asked about."""
    toy = Toy(
        page_size=numbers["page_size"],
        num_pages=numbers["num_pages"],
        cache_type="naive",
        max_running_req=8,
        cuda_graph_bs=numbers["sizes"],
    )
    toy.hooks.attach(out_loc := _OutLoc())
    for uid, (prompt, output) in enumerate(
        zip(numbers["prompts"], numbers["outputs"], strict=True), start=1
    ):
        toy.add([20 * uid + i for i in range(prompt)], says=[1] * output)
    for _ in range(numbers["step"]):
        toy.step()
        if not toy.has_work:
            break
    return out_loc.steps


add(
    Exercise(
        name="predict-padding",
        kind="predict",
        answer="padded_out_loc",
        objective="write out_loc of a padded decode step: one slot a request, then the dummies'",
        difficulty=2,
        minutes=12,
        points=2,
        page="cuda-graph-padding",
        misconceptions=("m14", "m03", "m04"),
        template=Template(_draw, _text, _solve),
        hints=(
            "A decode step computes one token of each request that still runs: one slot each, in"
            " the order of the requests. A request that says m tokens takes part in m steps.",
            "In step s a request computes position prompt + s - 2. Which of its pages is that on,"
            " and when did it take that page?",
            "The batch is filled up to the smallest captured size that is large enough. Each dummy"
            " writes to the first slot of the page behind the scheduler's last, N · P.",
        ),
    )
)
