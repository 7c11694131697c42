"""In which turn does the host read each request's last token, one step behind the device?"""

from __future__ import annotations

import random
from typing import Any

from ...core import Batch, Req
from ...hooks import Listener
from ...toy import Toy
from ..checks.exercise import Exercise, Template, add

EOS = 0


class _Ends(Listener):
    """The turn of each request's last token, and the number of batches."""

    def __init__(self, toy: Toy) -> None:
        self.toy = toy
        self.ended: dict[int, int] = {}
        self.batches = 0
        toy.hooks.attach(self)

    def on_launch(self, batch: Batch, batch_id: int) -> None:
        self.batches += 1

    def on_token(self, req: Req, token: int, finished: bool, reason: str | None) -> None:
        if finished:
            self.ended[req.uid] = self.toy.turn


def _draw(rng: random.Random) -> dict[str, Any]:
    while True:
        numbers = {
            # turn of arrival, tokens it says, whether the last of them is <eos>
            "requests": [
                (1, rng.randrange(2, 6), rng.random() < 0.5),
                (rng.randrange(1, 4), rng.randrange(2, 6), rng.random() < 0.5),
                (rng.randrange(3, 6), rng.randrange(1, 5), rng.random() < 0.5),
            ],
        }
        requests = numbers["requests"]
        if len({by_eos for *_, by_eos in requests}) < 2:
            continue
        # Whoever ends last by <eos> has a batch run in vain, and both loops must differ in more
        # than that one turn.
        answer, plain = _solve(numbers), _solve(numbers, overlap=False)
        if answer["batches"] > plain["batches"] and len(set(answer["last_token"])) == 3:
            return numbers


def _text(numbers: dict[str, Any]) -> str:
    lines = []
    for uid, (turn, says, by_eos) in enumerate(numbers["requests"], start=1):
        tokens = "1 token" if says == 1 else f"{says} tokens"
        end = (
            "the last of which is `<eos>`; its `max_tokens` is 20" if by_eos else "its `max_tokens`"
        )
        lines.append(f"- request {uid} is there when turn {turn} begins, and says {tokens}, {end}")
    return """## One step behind

*About 14 minutes, 2 points. It needs [overlap](../book/overlap-scheduling.ipynb).*

The overlapped loop runs. Each turn receives what has come, launches a batch if there is work for
one, and then reads the result of the batch launched in the turn before. A batch is a prefill, when
somebody waits, or else a decode step of all that run. The pool has room for everything, and
prompts are short.

{requests}

How many batches are launched in all? And in which turn, counted from 1, does the host read the last
token of each request? Replace `None` by a dict: `{{"batches": …, "last_token": [… , … , …]}}`.
""".format(requests="\n".join(lines))


def _solve(numbers: dict[str, Any], overlap: bool = True) -> dict[str, Any]:
    toy = Toy(page_size=2, num_pages=64, overlap=overlap)
    ends = _Ends(toy)
    requests = numbers["requests"]
    for turn in range(1, 60):
        for uid, (arrival, says, by_eos) in enumerate(requests, start=1):
            if arrival == turn:
                answer = [10 * uid + i for i in range(says - by_eos)] + [EOS] * by_eos
                prompt = [100 * uid + i for i in range(3)]
                toy.add(prompt, answer, max_tokens=20 if by_eos else says, uid=uid)
        toy.step()
        if len(ends.ended) == len(requests) and not toy.has_work:
            break
    last_token = [ends.ended[uid] for uid in range(1, len(requests) + 1)]
    return {"batches": ends.batches, "last_token": last_token}


add(
    Exercise(
        name="predict-overlap",
        kind="predict",
        answer="one_step_behind",
        objective="say which turn reads a request's last token, and how many batches run in vain",
        difficulty=3,
        minutes=14,
        points=2,
        page="overlap-scheduling",
        misconceptions=("m05",),
        template=Template(_draw, _text, _solve),
        hints=(
            "Draw a line for each turn: which batch is launched in it, with which requests, and"
            " which batch is read. What is launched in turn t is read in turn t + 1.",
            "A turn whose batch is a prefill decodes nobody: those that run wait for a turn.",
            "By max_tokens the host knows from counting alone that no more is to be launched. After"
            " <eos> it knows when it has read it, and by then the request's next step is launched.",
        ),
    )
)
