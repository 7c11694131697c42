"""Traces that somebody changed and signed anew: refused with a reason, or replayable; never a hang.

A digest is no signature, so these pass it. Each mutation puts a value where another belongs.
"""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from minisgl_lite.toy import Toy
from minisgl_lite.trace import Recorder, Trace, TraceError

ODD = (None, -1, 0, 2**62, 1.5, True, "x", "r1", [], [[0, 10**12]], {}, {"uid": 1}, [None] * 5)


@pytest.fixture(scope="module")
def run() -> dict[str, Any]:
    toy = Toy(page_size=2, num_pages=12)
    with Recorder(toy) as recorder:
        toy.add("the cat sat", says="on a mat")
        toy.run()
        toy.add("the cat ran", says="off")
        toy.run()
    return recorder.trace().to_dict()


def signed(content: dict[str, Any]) -> dict[str, Any]:
    """With the digest that belongs to it; without one where the format knows none."""
    if not isinstance(content["meta"], dict):
        return content | {"digest": ""}
    vocab = {int(token): bytes.fromhex(text) for token, text in content["vocab"].items()}
    return content | {"digest": Trace(content["meta"], content["frames"], vocab).digest()}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each value within ``value``."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    found = []
    for key in keys:
        found.append((*path, key))
        if isinstance(value[key], dict | list):
            found += places(value[key], (*path, key))
    return found


def test_the_run_itself_is_read(run: dict[str, Any]) -> None:
    assert len(Trace.from_dict(signed(run))) > 10


def test_odd_values_anywhere_are_refused_or_do_no_harm(run: dict[str, Any]) -> None:
    rng = random.Random(4)
    everywhere = places({key: run[key] for key in ("meta", "frames")})
    refused = 0
    for _ in range(1500):
        content = copy.deepcopy({key: run[key] for key in run if key != "digest"})
        path = rng.choice(everywhere)
        spot: Any = content
        for key in path[:-1]:
            spot = spot[key]
        spot[path[-1]] = rng.choice(ODD)
        try:
            trace = Trace.from_dict(signed(content), source="run.json")
        except TraceError as error:
            refused += 1
            assert str(error).startswith("run.json ") and "\n" not in str(error)
        else:
            trace.state_at(len(trace) - 1)
    assert refused > 700


@pytest.mark.parametrize("key", ["page_size", "num_pages", "rows", "width"])
def test_sizes_beyond_all_memory_are_refused_at_once(run: dict[str, Any], key: str) -> None:
    content = run | {"meta": run["meta"] | {key: 10**15}}
    with pytest.raises(TraceError, match=f"meta.{key} is 1000000000000000"):
        Trace.from_dict(signed(content))


def test_deeply_nested_json_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text("[" * 200_000)
    with pytest.raises(TraceError, match="not JSON"):
        Trace.load(file)


def test_packed_frames_of_the_wrong_kind_are_refused(run: dict[str, Any]) -> None:
    for packed in (None, 3, "x", [], {}, [[[]]], {"a": 1}):
        content = {k: v for k, v in run.items() if k != "frames"} | {"packed": packed}
        with pytest.raises(TraceError):
            Trace.from_dict(json.loads(json.dumps(content)))


@pytest.mark.parametrize("event", [None, 3, b"start", ["start"]])
def test_an_event_that_is_no_text_is_refused_with_what_is_allowed(
    run: dict[str, Any], event: Any
) -> None:
    with pytest.raises(ValueError, match="is not one of: start"):
        Trace.from_dict(signed(run)).find(event)
