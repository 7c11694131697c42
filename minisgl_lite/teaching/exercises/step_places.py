"""Positions and write places of a ragged batch, from a table with one entry per page."""

from __future__ import annotations

import random

import torch

from ...hooks import ORDER_SANITIZER, Listener
from ...scheduler import ForwardInput, Managers
from ...toy import Toy
from ...utils import div_ceil
from ..checks import expect
from ..checks.exercise import Exercise, add
from ..checks.learner import Learner, Wrong
from ..checks.lockstep import compare, play, random_stream


def _check(learner: Learner, rng: random.Random) -> None:
    for page_size in (1, 2, 4, rng.choice([3, 5])):
        p = page_size
        for lengths in (
            [(0, 1)],
            [(0, 2 * p)],
            [(0, 3 * p), (0, 1)],
            [(p, 2 * p + 1), (0, p)],
            [(2 * p - 1, 2 * p), (2 * p, 2 * p + 1), (0, 1)],
            [(3 * p, 3 * p + 1), (0, 1), (p, 3 * p)],
            [(cached := rng.randrange(3 * p), rng.randrange(cached + 1, 4 * p)) for _ in "abcd"],
        ):
            _compare_one(learner, rng, lengths, page_size)
    for chunks in (False, False, True):
        stream = random_stream(rng, chunks=chunks)
        compare(stream, Managers(), put_in=lambda toy: _put_in(learner, toy), misconception="m03")


def _compare_one(
    learner: Learner, rng: random.Random, lengths: list[tuple[int, int]], page_size: int
) -> None:
    needed = [div_ceil(device, page_size) for _, device in lengths]
    pages = iter(rng.sample(range(40), sum(needed)))
    starts = torch.full((len(lengths), max(needed) + rng.randrange(3)), -1, dtype=torch.int32)
    for i, count in enumerate(needed):
        starts[i, :count] = torch.tensor([next(pages) * page_size for _ in range(count)]).int()
    cached, device = [c for c, _ in lengths], [d for _, d in lengths]
    called = f"step_places({cached}, {device}, {starts.tolist()}, {page_size})"
    positions, out_loc = _two(learner(cached, device, starts, page_size), called, lengths)
    right = [position for c, d in lengths for position in range(c, d)]
    expect.equal(positions, right, f"{called}, positions", "token", "m03")
    slots = [
        int(starts[i, position // page_size]) + position % page_size
        for i, (c, d) in enumerate(lengths)
        for position in range(c, d)
    ]
    expect.equal(out_loc, slots, f"{called}, out_loc", "token", "m02")


def _two(
    value: object, called: str, lengths: list[tuple[int, int]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both tensors, each with an entry for each token that the step computes."""
    count = sum(device - cached for cached, device in lengths)
    if not isinstance(value, tuple) or len(value) != 2:
        raise Wrong(f"{called} should return two tensors, positions and out_loc")
    found = []
    for part, name in zip(value, ("positions", "out_loc"), strict=True):
        if isinstance(part, torch.Tensor) and part.dim() == 1 and len(part) != count:
            raise Wrong(
                f"{called}: {name} has {len(part)} entries; the step computes {count} tokens",
                "m03",
            )
        found.append(expect.tensor(part, f"{called}, {name},", torch.int32, (count,)))
    return found[0], found[1]


class _Yours(Listener):
    """Puts the learner's positions and write places into each prepared batch."""

    def __init__(self, learner: Learner, toy: Toy) -> None:
        self.learner, self.page_table = learner, toy.engine.page_table
        self.page_size = toy.cache_manager.page_size

    def on_prepare(self, forward_input: ForwardInput) -> None:
        batch, size = forward_input.batch, self.page_size
        lengths = [(req.cached_len, req.device_len) for req in batch.padded_reqs]
        needed = [div_ceil(device, size) for _, device in lengths]
        starts = torch.full((len(lengths), max(needed)), -1, dtype=torch.int32)
        for i, (req, count) in enumerate(zip(batch.padded_reqs, needed, strict=True)):
            starts[i, :count] = self.page_table[req.table_idx, : count * size : size]
        value = self.learner([c for c, _ in lengths], [d for _, d in lengths], starts, size)
        called = "step_places in the engine"
        batch.positions, batch.out_loc = _two(value, called, lengths)


def _put_in(learner: Learner, toy: Toy) -> None:
    # Before the sanitizer, which looks at what the step will really do.
    toy.hooks.attach(_Yours(learner, toy), order=ORDER_SANITIZER - 1)


add(
    Exercise(
        name="step-places",
        kind="build",
        answer="step_places",
        objective="compute the positions and the write places of a batch of different lengths",
        difficulty=2,
        minutes=20,
        points=5,
        page="write-locations",
        misconceptions=("m03", "m02"),
        counterparts=(
            "minisgl_lite.scheduler.mapping:make_positions",
            "minisgl_lite.scheduler.mapping:make_input_tuple",
        ),
        hints=(
            "Go through the requests in order. Each contributes its positions cached_len to"
            " device_len - 1, and nothing else.",
            "Position p stands on page p // page_size of its request, at place p % page_size. The"
            " table gives the page's first slot.",
            "Two lists in two nested loops are enough; make them torch.int32 tensors at the end."
            " Entries of -1 stand for no page, and no position that you compute leads there.",
        ),
        check=_check,
        scene=lambda learner: play(put_in=lambda toy: _put_in(learner, toy)),
    )
)
