"""Traces as files and as text in a page: whole, or refused with a reason."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from minisgl_lite import LLM
from minisgl_lite.trace import Recorder, Trace, TraceError
from minisgl_lite.trace.packing import unpack

from .worlds import EOS, make_scheduler, run_stream, send

WORDS = {token: bytes([token]) for token in range(256)}


def a_trace(seed: int = 1, *, wall: bool = False, **kwargs: Any) -> Trace:
    overlap = kwargs.pop("overlap", False)
    scheduler = make_scheduler(eos=EOS, **kwargs)
    recorder = Recorder(scheduler, vocab=WORDS, wall=wall)
    run_stream(scheduler, seed, overlap=overlap)
    return recorder.trace()


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_saved_and_loaded_it_is_the_same(tmp_path: Path, name: str) -> None:
    trace = a_trace(wall=True)
    again = Trace.load(trace.save(tmp_path / name))
    assert again == trace
    assert again.digest() == trace.digest()
    assert trace.wall is not None and len(trace.wall) == len(trace)


def test_text_for_a_page_holds_all_but_the_wall_times() -> None:
    trace = a_trace(wall=True)
    again = Trace.from_widget(trace.to_widget())
    assert (again.meta, again.frames, again.vocab) == (trace.meta, trace.frames, trace.vocab)
    assert again.wall is None


@pytest.mark.parametrize("overlap", [False, True])
def test_equal_input_gives_equal_bytes(tmp_path: Path, overlap: bool) -> None:
    for late in {False, overlap}:
        runs = [a_trace(3, overlap=overlap, late=late, wall=True) for _ in range(2)]
        saved = [run.save(tmp_path / f"{i}.json.gz", wall=False) for i, run in enumerate(runs)]
        assert saved[0].read_bytes() == saved[1].read_bytes()
        assert runs[0].digest() == runs[1].digest()
        assert runs[0].compare(runs[1]) is None


FRESH = """
from tests.trace.test_trace_file import a_trace
print(a_trace(5, overlap=True).digest(), a_trace(5).digest())
"""


def test_equal_input_gives_equal_bytes_in_a_fresh_process() -> None:
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", FRESH], cwd=root, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == [a_trace(5, overlap=True).digest(), a_trace(5).digest()]


def test_wall_times_and_package_version_do_not_change_the_digest() -> None:
    trace = a_trace(wall=True)
    digest = trace.digest()
    trace.wall = None
    trace.meta["package"] = "9.9"
    assert trace.digest() == digest
    trace.meta["model"] = "another"
    assert trace.digest() != digest


def saved(tmp_path: Path) -> Path:
    return a_trace().save(tmp_path / "run.json")


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_another_version_is_refused_with_the_command_that_records_anew(tmp_path: Path) -> None:
    path = saved(tmp_path)
    edit(path, version=1)
    with pytest.raises(TraceError) as caught:
        Trace.load(path)
    assert str(caught.value) == (
        f"{path} has trace version 1, this package reads version 2; "
        "record it anew: minisgl-lite generate PROMPT --trace FILE"
    )


def test_truncated_file(tmp_path: Path) -> None:
    path = saved(tmp_path)
    data = path.read_bytes()
    for end in (0, 1, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:end])
        with pytest.raises(TraceError, match="cut short or not JSON"):
            Trace.load(path)


def test_truncated_gzip_file(tmp_path: Path) -> None:
    path = a_trace().save(tmp_path / "run.json.gz")
    data = path.read_bytes()
    for end in (0, 5, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:end])
        with pytest.raises(TraceError, match=r"cut short|not JSON"):
            Trace.load(path)
    path.write_bytes(data[:-9] + b"xxxxxxxxx")
    with pytest.raises(TraceError, match="cut short or not gzip"):
        Trace.load(path)


def test_edited_file(tmp_path: Path) -> None:
    path = saved(tmp_path)
    content = json.loads(path.read_text())
    for frame in content["frames"]:
        if "tokens" in frame:
            frame["tokens"][0][1] += 1
            break
    path.write_text(json.dumps(content))
    with pytest.raises(TraceError, match="was changed after it was recorded: its digest is"):
        Trace.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "another"}, "is not a minisgl-lite-trace"),
        ({"vocab": {"1": "no hex"}}, "its vocab is not hex"),
        ({"vocab": [1]}, "its vocab is not hex"),
        ({"frames": None}, "was changed after it was recorded"),
    ],
)
def test_foreign_or_damaged_content(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = saved(tmp_path)
    edit(path, **changes)
    with pytest.raises(TraceError, match=message):
        Trace.load(path)


def test_json_that_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in ("[]", "3", "{}", '"text"'):
        path.write_text(text)
        with pytest.raises(TraceError, match="is not a minisgl-lite-trace"):
            Trace.load(path)
    path.write_text('{"format": "minisgl-lite-trace", "version": 2, "meta": {}}')
    with pytest.raises(TraceError, match="is incomplete: digest, vocab, frames missing"):
        Trace.load(path)


def test_damaged_text_in_a_page() -> None:
    text = a_trace().to_widget()
    for damaged in ("", text[:-8], "%" + text[1:], text[: len(text) // 2]):
        with pytest.raises(TraceError, match="widget's trace is"):
            Trace.from_widget(damaged)


def test_gzip_and_deflate_are_the_plain_kinds(tmp_path: Path) -> None:
    """What a browser's DecompressionStream reads: gzip, and zlib's deflate."""
    import base64

    trace = a_trace()
    packed = trace.save(tmp_path / "run.json.gz").read_bytes()
    assert json.loads(gzip.decompress(packed)) == trace.to_dict()
    in_page = json.loads(zlib.decompress(base64.b64decode(trace.to_widget())))
    assert in_page["digest"] == trace.digest()
    assert unpack(trace.meta, in_page["packed"]) == trace.frames


def test_vocab_holds_the_tokens_that_occur() -> None:
    trace = a_trace()
    tokens = {
        token
        for f in trace.frames
        for r in f.get("reqs", {}).values()
        for token in r.get("ids", ())
    }
    assert set(trace.vocab) == tokens
    assert all(trace.vocab[token] == WORDS[token] for token in tokens)
    assert trace.token_text(100) == "d"
    assert trace.token_text(99_999) == "#99999"


def test_the_loop_is_seen_from_the_order_of_events() -> None:
    assert a_trace().meta["loop"] == "normal"
    assert a_trace(overlap=True).meta["loop"] == "overlap"


def test_real_model_names_itself_and_gives_the_bytes_of_its_tokens() -> None:
    with LLM("tiny", page_size=4, num_pages=16) as llm, Recorder(llm) as recorder:
        llm.generate(["hi é"])
    trace = recorder.trace()
    assert (trace.meta["model"], trace.meta["mode"], trace.meta["dtype"]) == (
        "tiny",
        "exact",
        "float32",
    )
    assert trace.meta["eos"] == [257]
    prompt = trace.frames[0]["reqs"]["0"]["ids"]
    assert b"".join(trace.vocab[token] for token in prompt).endswith("hi é".encode())


def test_recorders_of_several_engines_do_not_meet() -> None:
    first, second = make_scheduler(), make_scheduler(page_size=1)
    recorders = [Recorder(first), Recorder(second)]
    for uid in range(3):
        send(first, uid, [1, 2, 3], 3)
        send(second, uid, [4, 5], 2)
        first.normal_loop()
        second.normal_loop()
    alone = make_scheduler()
    recorder = Recorder(alone)
    for uid in range(3):
        send(alone, uid, [1, 2, 3], 3)
        alone.normal_loop()
    assert recorders[0].trace().digest() == recorder.trace().digest()
    assert recorders[1].trace().meta["page_size"] == 1


def test_two_recorders_of_one_engine_record_the_same() -> None:
    scheduler = make_scheduler()
    recorders = [Recorder(scheduler), Recorder(scheduler)]
    run_stream(scheduler, 2)
    assert recorders[0].trace().digest() == recorders[1].trace().digest()


def test_detached_recorder_keeps_its_frames_and_costs_nothing() -> None:
    scheduler = make_scheduler()
    with Recorder(scheduler) as recorder:
        run_stream(scheduler, 2, num_reqs=2)
    count = len(recorder.frames)
    assert not scheduler.hooks.active
    run_stream(scheduler, 3, num_reqs=2)
    assert len(recorder.frames) == count > 0
    recorder.attach(make_scheduler())
    assert recorder.frames == []
    with pytest.raises(ValueError, match="records a scheduler already"):
        recorder.attach(scheduler)
