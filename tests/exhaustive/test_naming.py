"""One name for all streams that differ only in names: none left out, none twice."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest
import torch

from exhaustive.device import Device
from exhaustive.naming import EOS, Shape, patterns
from exhaustive.play import Kit, make_cast, play
from exhaustive.worlds import Abort, Setting
from minisgl_lite.kvcache import NaivePrefixCache
from minisgl_lite.scheduler import Scheduler

LETTERS = (1, 2, 3)


def agree(one: list[int], other: list[int]) -> int:
    """The length of the common prefix."""
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length


def common_of(tokens: list[list[int]], written: list[int]) -> tuple[int, ...]:
    cut = [own[:length] for own, length in zip(tokens, written, strict=True)]
    return tuple(agree(a, b) for a, b in combinations(cut, 2))


def texts(shape: Shape) -> list[list[int]]:
    """All token sequences of a request over three letters and EOS, which only a stop may be."""
    prompt: tuple[int, ...] = (*LETTERS, EOS)
    last: tuple[int, ...] = (EOS,) if shape.stop else LETTERS
    return list(
        map(list, product(*[prompt] * shape.prompt, *[LETTERS] * (shape.outputs - 1), last))
    )


TWO = [Shape(n, most, stop) for n in (1, 2) for most in (1, 2) for stop in range(most + 1)]
THREE = [Shape(1, 1), Shape(1, 2), Shape(2, 1)]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("shapes", [*product(TWO, repeat=2), *product(THREE, repeat=3)])
def test_patterns_are_those_of_all_token_sequences(
    shapes: tuple[Shape, ...], overlap: bool
) -> None:
    written = [shape.written(overlap=overlap) for shape in shapes]
    brute = {common_of(list(together), written) for together in product(*map(texts, shapes))}
    named = list(patterns(shapes, overlap=overlap))
    assert len({common for common, _ in named}) == len(named)
    assert {common for common, _ in named} == brute


@pytest.mark.parametrize("overlap", [False, True])
def test_names_agree_as_far_as_their_pattern_says_and_end_as_the_shapes_say(overlap: bool) -> None:
    for shapes in product(TWO, repeat=2):
        written = [shape.written(overlap=overlap) for shape in shapes]
        for common, tokens in patterns(shapes, overlap=overlap):
            assert common_of(tokens, written) == common
            for shape, own in zip(shapes, tokens, strict=True):
                assert len(own) == shape.prompt + shape.outputs
                outputs = own[shape.prompt :]
                assert EOS not in outputs[:-1]
                assert (outputs[-1] == EOS) == (shape.stop > 0)


class Noting(Device):
    """Keeps the slots of every batch, in order."""

    log: list[Any] = []  # noqa: RUF012 - one run at a time

    def prepare_metadata(self, batch: Any) -> None:
        super().prepare_metadata(batch)
        self.log.append((batch.phase, batch.out_loc.tolist(), *batch.attn_metadata))


class NotingScheduler(Scheduler):
    """Keeps the queue of free pages after every turn."""

    def live_reqs(self) -> Any:
        Noting.log.append(self.cache_manager.free_slots.tolist())
        return super().live_reqs()


def course(shapes: tuple[Shape, ...], tokens: list[list[int]], page_size: int) -> list[Any]:
    Noting.log = []
    setting = Setting("a", page_size, 1, "overlap", "radix")
    kit = Kit(scheduler=NotingScheduler, device=Noting)
    play(setting, shapes, make_cast(shapes, tokens), (0, 1), Abort(3, 1), kit)
    return Noting.log


@pytest.mark.parametrize("page_size", [1, 2])
def test_streams_that_differ_only_in_names_take_the_same_course(page_size: int) -> None:
    shapes = (Shape(2, 2), Shape(2, 2))
    written = [shape.written(overlap=True) for shape in shapes]
    courses: dict[tuple[int, ...], list[Any]] = {}
    for one, other in product(texts(shapes[0])[::5], texts(shapes[1])[::7]):
        common = common_of([one, other], written)
        log = course(shapes, [one, other], page_size)
        assert courses.setdefault(common, log) == log, (one, other)
    assert len(courses) == len(list(patterns(shapes, overlap=True)))


def test_naive_cache_looks_at_no_token() -> None:
    class Untouchable:
        """Says how many tokens it holds, and nothing else."""

        def __len__(self) -> int:
            return 3

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"{name} of the ids was asked for")

    ids: Any = Untouchable()
    cache = NaivePrefixCache(torch.device("cpu"))
    assert cache.match_prefix(ids).cuda_handle.cached_len == 0
    assert cache.insert_prefix(ids, ids).cached_len == 0
