"""Canonical names for tokens: of all streams that differ only in names, one is run.

The engine compares tokens in two places: the radix tree compares prefixes, and the scheduler
compares a sampled token with the end-of-sequence id. So a stream is known by its lengths, by where
a request stops, and by how many of their first tokens two requests share, counted over all tokens
whose K/V are written, outputs included. Names are then given position by position: the same name
where a prefix is shared, a new one everywhere else.

A prompt may contain the end-of-sequence id: it does so when it shares the token with which another
request stopped. Outputs may differ below equal prefixes, as sampling makes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import NamedTuple

EOS = 99
"""Above every other name."""


class Shape(NamedTuple):
    """A request but for its tokens: ``stop`` is the output, counted from 1, that is EOS; or 0."""

    prompt: int
    max_tokens: int
    stop: int = 0

    @property
    def outputs(self) -> int:
        return self.stop or self.max_tokens

    @property
    def longest(self) -> int:
        return self.prompt + self.max_tokens

    @property
    def early(self) -> bool:
        """Stops before its last token, so under overlap one step more may be on the device."""
        return 0 < self.stop < self.max_tokens

    @property
    def stop_position(self) -> int | None:
        return self.prompt + self.stop - 1 if self.stop else None

    def written(self, *, overlap: bool) -> int:
        """Tokens that get K/V: the last output does only in a step that was launched too early."""
        return self.prompt + self.outputs - 1 + int(overlap and self.early)


Common = tuple[int, ...]
"""Lengths of the common prefixes of each two requests, in the order of ``combinations``."""


def patterns(
    shapes: tuple[Shape, ...], *, overlap: bool
) -> Iterator[tuple[Common, list[list[int]]]]:
    """All ways in which the written tokens can agree, each with the requests' tokens.

    The tokens of a request are its prompt and its outputs, the last one included.
    """
    written = [shape.written(overlap=overlap) for shape in shapes]
    pairs = list(combinations(range(len(shapes)), 2))
    bounds = [range(min(written[i], written[j]) + 1) for i, j in pairs]
    for common in product(*bounds):
        if _is_possible(common) and (names := give_names(shapes, common, written)) is not None:
            yield common, names


def no_agreement(shapes: tuple[Shape, ...]) -> tuple[Common, list[list[int]]]:
    """The one pattern a cache needs that never looks at a token: nothing is shared."""
    common = (0,) * len(list(combinations(shapes, 2)))
    names = give_names(shapes, common, [0] * len(shapes))
    assert names is not None
    return common, names


def _is_possible(common: Common) -> bool:
    """Of three prefixes two share what the third shares with either: the smallest stands twice."""
    return len(common) < 3 or sorted(common)[0] == sorted(common)[1]


def give_names(
    shapes: tuple[Shape, ...], common: Common, written: list[int]
) -> list[list[int]] | None:
    """The tokens of each request; None if a stop contradicts what is to be shared."""
    shared = dict(zip(combinations(range(len(shapes)), 2), common, strict=True))
    names: list[list[int]] = []
    fresh = iter(range(1, EOS))
    for i, shape in enumerate(shapes):
        own = []
        for position in range(shape.prompt + shape.outputs):
            like = next((j for j in range(i) if shared[j, i] > position), None)
            own.append(next(fresh) if like is None else names[like][position])
        names.append(own)
    stops = {
        names[i][shape.stop_position]
        for i, shape in enumerate(shapes)
        if shape.stop_position is not None
    }
    names = [[EOS if name in stops else name for name in own] for own in names]
    contradicted = any(
        name == EOS and position >= shape.prompt and position != shape.stop_position
        for shape, own in zip(shapes, names, strict=True)
        for position, name in enumerate(own)
    )
    agree_too_long = any(
        length < min(written[i], written[j]) and names[i][length] == names[j][length]
        for (i, j), length in shared.items()
    )
    return None if contradicted or agree_too_long else names
