"""A grid of runs that differ in what the reader may choose: page size, prefix cache, prompts, ….

A page without a kernel can so answer "what if": each combination was recorded, all of them travel
in one text, and the view switches between them at once.
"""

from __future__ import annotations

import base64
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..toy import Toy
from ..trace import Recorder, Trace, TraceError
from ..trace.packing import pack
from ..trace.trace import VERSION as TRACE_VERSION

FORMAT = "minisgl-lite-variants"
VERSION = 1

Value: TypeAlias = "str | int | float | bool"
Place: TypeAlias = "tuple[int, ...]"  # an index per axis


@dataclass(frozen=True)
class Variants:
    """Runs by what was chosen. ``axes``: name to values; ``traces``: last axis fastest."""

    axes: dict[str, tuple[Value, ...]]
    traces: tuple[Trace, ...]

    def __len__(self) -> int:
        return len(self.traces)

    def place(self, **chosen: Value) -> Place:
        """Where a choice stands; an axis that is left out is at its first value.

        Raises ValueError when there is no such axis or value.
        """
        if unknown := [name for name in chosen if name not in self.axes]:
            raise ValueError(f"{unknown[0]} is not one of: {', '.join(self.axes)}")
        place = []
        for name, values in self.axes.items():
            value = chosen.get(name, values[0])
            if value not in values:
                raise ValueError(f"{name} {value!r} is not one of: {', '.join(map(str, values))}")
            place.append(values.index(value))
        return tuple(place)

    def at(self, place: Sequence[int]) -> Trace:
        """The run at a place."""
        index = 0
        for i, values in zip(place, self.axes.values(), strict=True):
            index = index * len(values) + i
        return self.traces[index]

    def get(self, **chosen: Value) -> Trace:
        """The run of a choice: ``grid.get(page_size=4)``. As ``place``."""
        return self.at(self.place(**chosen))

    def to_widget(self) -> str:
        """All runs as one text: base64 of deflated JSON. What they share stands there once."""
        vocabs: list[dict[str, str]] = []
        shared = self.traces[0].meta
        runs = []
        for trace in self.traces:
            vocab = {str(token): trace.vocab[token].hex() for token in sorted(trace.vocab)}
            if vocab not in vocabs:
                vocabs.append(vocab)
            meta = {key: part for key, part in trace.meta.items() if shared.get(key) != part}
            packed = pack(trace.meta, trace.frames)
            runs.append([trace.digest(), meta, vocabs.index(vocab), packed])
        data = {
            "format": FORMAT,
            "version": VERSION,
            "axes": [[name, list(values)] for name, values in self.axes.items()],
            "meta": shared,
            "vocabs": vocabs,
            "runs": runs,
        }
        return base64.b64encode(
            zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9)
        ).decode()

    @classmethod
    def from_widget(cls, text: str) -> Variants:
        """Read what ``to_widget`` made. Raises TraceError."""
        try:
            data = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
        except (ValueError, zlib.error):
            raise TraceError(
                "the widget's variants are cut short or not base64 of deflate"
            ) from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise TraceError(f"the widget's text is not {FORMAT}")
        if data.get("version") != VERSION:
            raise TraceError(f"the variants have version {data.get('version')!r}, not {VERSION}")
        axes = {name: tuple(values) for name, values in data["axes"]}
        return cls(axes, tuple(_runs(data)))


def opening(text: str, options: Mapping[str, Any]) -> Trace:
    """The run that a view opens with, from its ``trace`` and options. Raises TraceError."""
    if "variant" not in options:
        return Trace.from_widget(text)
    return Variants.from_widget(text).at(options["variant"])


def _runs(data: dict[str, Any]) -> Iterator[Trace]:
    for digest, meta, vocab, packed in data["runs"]:
        whole = {"digest": digest, "meta": data["meta"] | meta, "vocab": data["vocabs"][vocab]}
        content = {
            "format": "minisgl-lite-trace",
            "version": TRACE_VERSION,
            "packed": packed,
        } | whole
        yield Trace.from_dict(content, source="a variant")


def variants(
    make: Callable[..., Toy | Trace], **axes: Sequence[Value] | Mapping[str, Any]
) -> Variants:
    """Record a run for each combination of what the reader may choose.

    ::

        def make(page_size, cache_type, prompts):
            toy = Toy(page_size=page_size, num_pages=32 // page_size, cache_type=cache_type)
            for prompt, answer in prompts:
                toy.add(prompt, says=answer)
            return toy

        show(variants(make, page_size=(1, 2, 4, 8, 16), cache_type=("naive", "radix"),
                      prompts={"alike": [...], "strangers": [...]}))

    Args:
        make: called with one value per axis, by name. It returns a ``Toy`` with its requests, which
            is recorded until all are answered; or a ``Trace``, for a run with a course of its own.
        axes: name to the values to choose from, or to values by the names that readers see. One of
            three or more numbers is a slider, any other a list.

    Raises:
        ValueError: an axis has no values, or a value twice; ``make`` returned something else.
    """
    choices: dict[str, dict[Any, Any]] = {}
    for name, values in axes.items():
        pairs = values.items() if isinstance(values, Mapping) else ((v, v) for v in values)
        choices[name] = dict(pairs)
        if not choices[name] or len(choices[name]) != len(values):
            raise ValueError(f"{name} needs values, each once, not {values!r}")
    if not choices:
        raise ValueError("variants() needs something to choose: page_size=(1, 2, 4), …")
    combinations = itertools.product(*(values.values() for values in choices.values()))
    traces = tuple(
        _record(make(**dict(zip(choices, values, strict=True)))) for values in combinations
    )
    return Variants({name: tuple(values) for name, values in choices.items()}, traces)


def labelled(traces: Mapping[str, Trace]) -> Variants:
    """Recorded runs by the names that readers see: one axis. Raises ValueError."""
    wrong = [run for run in traces.values() if not isinstance(run, Trace)]
    if wrong or not traces:
        found = f"{type(wrong[0]).__name__}" if wrong else "none"
        raise ValueError(f"a choice of runs needs Traces by name, not {found}")
    return Variants({"run": tuple(map(str, traces))}, tuple(traces.values()))


def _record(made: Toy | Trace) -> Trace:
    if isinstance(made, Trace):
        return made
    if not isinstance(made, Toy):
        raise ValueError(f"make() should return a Toy or a Trace, not {type(made).__name__}")
    with Recorder(made) as recorder:
        made.run()
    return recorder.trace()
