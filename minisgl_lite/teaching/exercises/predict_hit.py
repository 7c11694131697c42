"""How many tokens of a prompt are found in the cache?"""

from __future__ import annotations

import random
from typing import Any

import torch

from ...core import SamplingParams
from ...scheduler import PendingReq
from ...toy import Toy
from ..checks.exercise import Exercise, Template, add


def _draw(rng: random.Random) -> dict[str, Any]:
    while True:
        page_size = rng.choice([2, 3, 4, 5])
        prompt = page_size * rng.randrange(2, 4) + rng.choice([0, 0, 1, page_size - 1])
        output = rng.randrange(2, 2 * page_size + 1)
        numbers = {
            "page_size": page_size,
            "prompt": prompt,
            "output": output,
            "shared": page_size + rng.randrange(0, prompt - page_size),
            "more": rng.randrange(1, 4),
        }
        found = _solve(numbers)
        # The last one finds something of the answer, and they are not all alike.
        if found[3] > prompt and len(set(found)) >= 3:
            return numbers


def _text(numbers: dict[str, Any]) -> str:
    return """## How much is found?

*About 8 minutes, 1 point. It needs [prefill](../book/prefill-admission.ipynb).*

Pages hold {page_size} tokens. A request with a prompt of {prompt} tokens has said {output} tokens
and has ended; nothing was evicted since, and nothing else is in the radix cache. Now one of these
prompts comes (each as if the others did not):

0. the same prompt once more;
1. its first {shared} tokens, and nothing else;
2. its first {shared} tokens, then {more} others;
3. the same prompt, all {output} tokens of the answer, and {more} others.

How many tokens does each of them find in the cache? Replace `None` by a list of four numbers.
""".format(**numbers)


def _solve(numbers: dict[str, Any]) -> list[int]:
    prompt = list(range(1, numbers["prompt"] + 1))
    answer = list(range(100, 100 + numbers["output"]))
    others = list(range(200, 200 + numbers["more"]))
    shared = prompt[: numbers["shared"]]
    toy = Toy(page_size=numbers["page_size"], num_pages=32)
    toy.add(prompt, says=answer)
    toy.run()
    found = []
    for ids in (prompt, shared, shared + others, prompt + answer + others):
        pending = PendingReq(9, torch.tensor(ids, dtype=torch.int32), SamplingParams())
        found.append(toy.cache_manager.match_req(pending).cuda_handle.cached_len)
    return found


add(
    Exercise(
        name="predict-hit",
        kind="predict",
        answer="tokens_found",
        objective="say how many tokens of a prompt are found in the radix cache",
        difficulty=1,
        minutes=8,
        points=1,
        page="prefill-admission",
        misconceptions=("m06", "m05", "m12"),
        template=Template(_draw, _text, _solve),
        hints=(
            "Only whole pages are shared: what is found is a multiple of P.",
            "The last token of a prompt is always computed, because its logits choose the first"
            " output. So a prompt of n tokens finds at most n - 1, rounded down to whole pages.",
            "What a request has said is in the cache as well, with one exception: the last token"
            " that it says is never fed to the model and has no K and V.",
        ),
    )
)
