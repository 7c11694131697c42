"""Packed frames: small, and the same when they are whole again, in Python and in JavaScript."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from minisgl_lite.distributed import DistributedInfo
from minisgl_lite.trace import KVSanitizer, Recorder, Trace, TraceError
from minisgl_lite.trace.faults import faults_of
from minisgl_lite.trace.packing import pack, unpack

from .big_run import REQUESTS, SLOTS, TURNS, big_run
from .worlds import EOS, make_scheduler, run_stream

STATIC = Path(__file__).parents[2] / "minisgl_lite" / "viz" / "static"
KINDS = list(itertools.product((1, 4), ("naive", "radix"), (False, True), (5, 64), ((), (2, 4))))


def a_trace(
    seed: int,
    page_size: int,
    cache_type: str,
    overlap: bool,
    budget: int,
    graph_bs: tuple[int, ...],
) -> Trace:
    scheduler = make_scheduler(
        page_size=page_size,
        num_pages=28 // page_size,
        rows=3,
        cache_type=cache_type,
        budget=budget,
        eos=(EOS, 0, 1),
        late=overlap,
        graph_bs=graph_bs,
    )
    if seed % 3 == 1:
        scheduler.engine.ctx.tp_info = DistributedInfo(1, 2)
    recorder = Recorder(scheduler)
    run_stream(scheduler, seed, overlap=overlap)
    return recorder.trace()


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    return [a_trace(seed, *kind) for seed, kind in enumerate(KINDS * 2)]


def test_packing_loses_nothing(traces: list[Trace]) -> None:
    for trace in traces:
        packed = json.loads(json.dumps(pack(trace.meta, trace.frames)))
        assert unpack(trace.meta, packed) == trace.frames
        assert Trace.from_widget(trace.to_widget()).digest() == trace.digest()


def test_nearly_all_is_foretold(traces: list[Trace]) -> None:
    """Only refusals and idle turns, which no state foretells, stand beside the numbers."""
    for trace in traces:
        first, *rest = pack(trace.meta, trace.frames)
        for entry in [first[:-1], *rest]:
            assert isinstance(entry, list)
            other = entry[-1] if isinstance(entry[-1], dict) else {}
            assert set(other) <= {"refuse", "turn", "batch"}


def test_what_is_otherwise_than_foretold_stands_there_in_full() -> None:
    """A run with a fault: slots that no rule foretells."""
    scheduler = make_scheduler(script=7)
    sanitizer = KVSanitizer(scheduler, stop=False)
    recorder = Recorder(scheduler, sanitizer=sanitizer)
    manager = scheduler.cache_manager
    allocate = manager._allocate
    manager._allocate = lambda n: allocate(n).flip(0)
    prepare = scheduler.engine.attn_backend.prepare_metadata

    def elsewhere(batch: object) -> None:
        prepare(batch)
        batch.out_loc = batch.out_loc.flip(0)  # type: ignore[attr-defined]

    scheduler.engine.attn_backend.prepare_metadata = elsewhere
    run_stream(scheduler, 1)
    trace = recorder.trace()
    found = [fault for frame in trace.frames for fault in faults_of(frame)]
    assert found == [fault.as_dict() for fault in sanitizer.faults], "all of them are in the trace"
    assert max(len(faults_of(frame)) for frame in trace.frames) > 1
    assert Trace.from_widget(trace.to_widget()).frames == trace.frames


def test_a_run_recorded_from_the_middle() -> None:
    scheduler = make_scheduler(budget=5)
    recorder = Recorder()

    def attach() -> None:
        if scheduler.turn == 7:
            recorder.attach(scheduler)

    run_stream(scheduler, 2, after_turn=attach)
    trace = recorder.trace()
    assert Trace.from_widget(trace.to_widget()).frames == trace.frames


def test_damaged_packed_frames_are_refused() -> None:
    trace = a_trace(0, *KINDS[0])
    data = trace.to_dict()
    packed = pack(trace.meta, data.pop("frames"))
    for damaged in (packed[1:], packed[:-1], [*packed, [6]], [[99, 1]], [3], 5):
        with pytest.raises(TraceError, match="was changed"):
            Trace.from_dict(data | {"packed": damaged})


@pytest.fixture(scope="module")
def big() -> Trace:
    return big_run()


def test_300_steps_over_4096_slots_take_at_most_90_kb_in_a_page(big: Trace) -> None:
    assert big.meta["page_size"] * big.meta["num_pages"] == SLOTS
    assert big.frames[-1]["turn"] == TURNS
    received = {u for f in big.frames for u, r in f.get("reqs", {}).items() if "input_len" in r}
    assert len(received) == REQUESTS
    phases = {frame["phase"] for frame in big.frames}
    assert {"evict", "abort", "release", "admit"} <= phases
    assert any(op[0] == "split" for frame in big.frames for op in frame.get("tree", ()))
    assert len(big.to_widget()) <= 90_000


SCRIPT = """
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
const { unpack } = await import(process.argv[1]);
for (const { packed, whole } of JSON.parse(readFileSync(0, "utf8"))) {
  const { frames } = unpack(packed);
  const plain = JSON.parse(JSON.stringify(frames));
  whole.forEach((frame, i) => {
    if (!isDeepStrictEqual(plain[i], frame)) {
      console.log(JSON.stringify({ i, js: plain[i], python: frame }));
      process.exit(1);
    }
  });
  if (plain.length !== whole.length) process.exit(2);
}
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node (apt install nodejs)")
def test_the_browser_unpacks_the_same(traces: list[Trace], big: Trace, tmp_path: Path) -> None:
    for path in STATIC.glob("*.js"):
        shutil.copy(path, tmp_path / path.name)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    cases = []
    for trace in [*traces, big]:
        whole = trace.to_dict()
        packed = {k: v for k, v in whole.items() if k != "frames"}
        packed["packed"] = pack(trace.meta, trace.frames)
        cases.append({"packed": packed, "whole": trace.frames})
    run = subprocess.run(
        ["node", "--input-type=module", "-e", SCRIPT, (tmp_path / "unpack.js").as_uri()],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[:3000] + run.stderr[:3000]
