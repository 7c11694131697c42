"""The lengths of a request after one of its steps."""

from __future__ import annotations

import random
from typing import Any

from ...core import Req
from ...hooks import Listener
from ...scheduler import ForwardInput
from ...toy import Toy
from ..checks.exercise import Exercise, Template, add


def _draw(rng: random.Random) -> dict[str, Any]:
    page_size = rng.choice([2, 3, 4])
    shared = rng.randrange(page_size + 1, 3 * page_size)
    return {
        "page_size": page_size,
        "shared": shared,
        "prompt": shared + rng.randrange(1, 5),
        "output": rng.randrange(5, 9),
        "step": rng.choice([1, 1, 2, 3, 4]),
    }


def _text(numbers: dict[str, Any]) -> str:
    return """## Three lengths

*About 8 minutes, 1 point. It needs [a request's lengths](../book/request-lengths.ipynb).*

Pages hold {page_size} tokens; the radix cache is on. Request 1 has ended, and all its whole pages
are cached. Request 2 comes with a prompt of {prompt} tokens. Its first {shared} are those of
request 1's prompt, which was longer; the others are not. It may say {output} tokens. Look at its
step {step}, counted from 1. How many tokens does this step compute (`extend_len`)? And what are
`cached_len` and `device_len` when it is over and its token has been sampled? Replace `None` by a
dict: `{{"extend_len": …, "cached_len": …, "device_len": …}}`.
""".format(**numbers)


class _Extends(Listener):
    """``extend_len`` of the request's last prepared step."""

    def __init__(self) -> None:
        self.last = 0

    def on_prepare(self, forward_input: ForwardInput) -> None:
        self.last = forward_input.batch.reqs[0].extend_len


def _solve(numbers: dict[str, Any]) -> dict[str, int]:
    toy = Toy(page_size=numbers["page_size"], num_pages=32)
    shared = list(range(1, numbers["shared"] + 1))
    toy.add([*shared, *range(100, 100 + 2 * numbers["page_size"])], says=[1, 2])
    toy.run()
    extends = _Extends()
    toy.hooks.attach(extends)
    rest = range(200, 200 + numbers["prompt"] - numbers["shared"])
    toy.add([*shared, *rest], says=list(range(50, 50 + numbers["output"])))
    for _ in range(numbers["step"]):
        toy.step()
    req: Req
    (req,) = toy.live_reqs()
    return {
        "extend_len": extends.last,
        "cached_len": req.cached_len,
        "device_len": req.device_len,
    }


add(
    Exercise(
        name="predict-lengths",
        kind="predict",
        answer="lengths",
        objective="give a request's lengths after a step, and what the step computes",
        difficulty=1,
        minutes=8,
        points=1,
        page="request-lengths",
        misconceptions=("m05", "m06"),
        template=Template(_draw, _text, _solve),
        hints=(
            "Step 1 computes the prompt from the end of the hit on, each further step one token."
            " Hits are whole pages.",
            "cached_len counts the tokens that have K and V. A token gets them when it is fed to"
            " the model, not when it is sampled.",
            "After step 1 every token of the prompt has K and V, and one more token is known:"
            " cached_len is the prompt, device_len one more. Each further step adds one to both.",
        ),
    )
)
