"""Drivers: commands in, frames out; one suite over live engines, here and in another process, and
over a recorded run."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minisgl_lite import LLM, SamplingParams
from minisgl_lite.scheduler import Scheduler
from minisgl_lite.toy import Toy
from minisgl_lite.trace import Recorder, State, Trace, TraceError
from minisgl_lite.viz import show
from minisgl_lite.viz.driver import Driver, LocalDriver, TraceDriver
from minisgl_lite.viz.pipe import PipeDriver, make_driver, serve

from ..trace.agreement import assert_same
from ..trace.worlds import finish, make_scheduler, send

ROOT = Path(__file__).parents[2]
WORDS = {token: bytes([token]) for token in range(256)}


def make(**settings: Any) -> Scheduler:
    return make_scheduler(script=list(b" out"), **settings)


def scripted() -> LocalDriver:
    return LocalDriver(make, vocab=WORDS)


def fixed() -> LocalDriver:
    return LocalDriver(make(), encode=lambda text: list(text.encode()), vocab=WORDS)


def overlapped() -> LocalDriver:
    return LocalDriver(lambda **settings: make(late=True, **settings), vocab=WORDS, overlap=True)


def real() -> LocalDriver:
    return LocalDriver(LLM("tiny", page_size=4, num_pages=32, max_running_req=4))


def real_overlapped() -> LocalDriver:
    return LocalDriver(LLM("tiny", page_size=4, num_pages=32, max_running_req=4, overlap=True))


def toy() -> LocalDriver:
    return LocalDriver(Toy(page_size=4, num_pages=16))


def late_toy() -> LocalDriver:
    return LocalDriver(Toy(page_size=4, num_pages=16, overlap=True, late=True))


def recorded() -> TraceDriver:
    scheduler = make()
    recorder = Recorder(scheduler, vocab=WORDS)
    send(scheduler, 0, b"abcde", 4)
    scheduler.normal_loop()
    send(scheduler, 1, b"abcdx", 4)
    finish(scheduler)
    return TraceDriver(recorder.trace())


def piped() -> PipeDriver:
    return start("scripted")


def piped_overlapped() -> PipeDriver:
    return start("overlapped")


def start(name: str, **options: Any) -> PipeDriver:
    """One of the drivers above in a process of its own; it ends with the test."""
    driver = PipeDriver.start(f"{__name__}:{name}", cwd=ROOT, **options)
    STARTED.append(driver)
    return driver


STARTED: list[PipeDriver] = []


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    while STARTED:
        STARTED.pop().close()


PIPED = [piped, piped_overlapped]
LIVE = [scripted, fixed, overlapped, real, real_overlapped]


def ask(driver: Driver, op: str, **arguments: Any) -> dict[str, Any]:
    """A command and its answer, both through JSON as between page and kernel."""
    command = json.loads(json.dumps({"op": op, **arguments}))
    answer = json.loads(json.dumps(driver.command(command)))
    assert set(answer) >= {"frames", "vocab", "busy", "error"}
    return answer


def run_to_the_end(driver: Driver) -> list[dict[str, Any]]:
    frames: list[dict[str, Any]] = []
    for _ in range(100):
        answer = ask(driver, "run")
        assert answer["error"] is None
        frames += answer["frames"]
        if not answer["busy"]:
            return frames
    raise AssertionError("the run does not end")


def tokens_of(frames: list[dict[str, Any]], uid: int) -> list[int]:
    shown = [entry for frame in frames for entry in frame.get("tokens", ()) if entry[2]]
    return [token for owner, token, *_ in shown if owner == uid]


# ---- the suite that all drivers pass ---------------------------------------------------------


@pytest.mark.parametrize("make_driver", [*LIVE, *PIPED, recorded])
def test_the_frames_of_all_answers_are_the_trace(make_driver: Callable[[], Driver]) -> None:
    driver = make_driver()
    before = len(driver.trace())
    frames: list[dict[str, Any]] = []
    words: dict[str, str] = {}
    if make_driver is not recorded:
        for prompt in ([97, 98, 99, 100, 101], [97, 98, 99, 100, 102]):
            assert ask(driver, "add", prompt=prompt, max_tokens=4)["error"] is None
    for _ in range(30):
        answer = ask(driver, "step")
        turns = {frame["turn"] for frame in answer["frames"]}
        assert len(turns) <= 1  # one whole turn, however many sub-steps it has
        frames += answer["frames"]
        assert not set(words) & set(answer["vocab"])
        words |= answer["vocab"]
        if not answer["busy"]:
            break
    trace = driver.trace()
    assert (trace.meta["loop"] == "overlap") == ("overlap" in make_driver.__name__)
    assert json.loads(json.dumps(trace.frames)) == frames
    assert before == 0
    assert {str(token): text.hex() for token, text in trace.vocab.items()} == words
    state = trace.state_at(len(trace) - 1)
    assert state.balance().holds and not state.live()
    assert [len(tokens_of(frames, uid)) for uid in (0, 1)] == [4, 4]


@pytest.mark.parametrize("make_driver", [*LIVE, *PIPED, recorded])
def test_nothing_to_do_is_no_turn(make_driver: Callable[[], Driver]) -> None:
    driver = make_driver()
    if make_driver is recorded:
        run_to_the_end(driver)
    for op in ("step", "run", "pause"):
        assert ask(driver, op) == {"frames": [], "vocab": {}, "busy": False, "error": None}


@pytest.mark.parametrize("make_driver", [*LIVE, *PIPED, recorded])
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ({"op": "explode"}, "op 'explode' is not one of: add, step, run, pause, abort, reset"),
        ({}, "op None is not one of"),
        ({"op": "_step"}, "op '_step' is not one of"),
        ({"op": "step", "turns": 3}, "unexpected keyword argument 'turns'"),
    ],
)
def test_what_is_no_command_is_said(
    make_driver: Callable[[], Driver], command: dict[str, Any], said: str
) -> None:
    answer = make_driver().command(command)
    assert said in answer["error"]
    assert answer["frames"] == []


@pytest.mark.parametrize("make_driver", [*LIVE, *PIPED, recorded])
def test_no_command_raises(make_driver: Callable[[], Driver]) -> None:
    driver = make_driver()
    odd: list[Any] = [
        None,
        3,
        [],
        {"op": []},
        {"op": "add"},
        {"op": "add", "prompt": None},
        {"op": "add", "prompt": [1, 2.5]},
        {"op": "add", "prompt": [-1]},
        {"op": "add", "prompt": [2**40]},
        {"op": "add", "prompt": [1], "max_tokens": "8"},
        {"op": "add", "prompt": [1], "max_tokens": True},
        {"op": "add", "prompt": [1], "temperature": "hot"},
        {"op": "abort", "uid": "x"},
        {"op": "abort"},
        {"op": "reset", "page_size": -4},
        {"op": "reset", "colour": "red"},
    ]
    for command in odd:
        answer = driver.command(command)
        assert isinstance(answer["error"], str) and answer["error"]
        assert "\n" not in answer["error"]


# ---- live ones -------------------------------------------------------------------------------


@pytest.mark.parametrize("make_driver", LIVE)
def test_replayed_frames_are_the_schedulers_state(make_driver: Callable[[], LocalDriver]) -> None:
    driver = make_driver()
    state = State(driver.trace().meta)
    ask(driver, "add", prompt=[97, 98, 99, 100, 101], max_tokens=4)
    ask(driver, "add", prompt=[97, 98, 99, 100, 101], max_tokens=2)
    for turn in range(12):
        if turn == 2:
            ask(driver, "abort", uid=0)
        for frame in ask(driver, "step")["frames"]:
            state.apply(frame)
        assert_same(state, driver.scheduler)
    assert state.reqs[0].state == "aborted"
    assert (state.reqs[1].state, state.reqs[1].shown) == ("done", 2)


@pytest.mark.parametrize("make_driver", LIVE)
def test_bad_prompts_are_said_at_once_and_others_go_on(
    make_driver: Callable[[], LocalDriver],
) -> None:
    driver = make_driver()
    longest = driver.scheduler.engine.max_seq_len
    for prompt, max_tokens, said in [
        ([], 4, "the prompt is empty"),
        ([1] * longest, 4, f"the prompt has {longest} tokens"),
        ([1], 0, "max_tokens 0 is not allowed"),
        ([2**30], 4, "outside the vocabulary"),
    ]:
        answer = ask(driver, "add", prompt=prompt, max_tokens=max_tokens)
        assert said in answer["error"] and not answer["busy"]
    answer = ask(driver, "add", prompt=[97], max_tokens=2)
    assert answer["error"] is None and answer["busy"]
    assert len(tokens_of(run_to_the_end(driver), answer["uid"])) == 2


@pytest.mark.parametrize("make_driver", [*LIVE, *PIPED])
def test_abort_acts_within_one_turn(make_driver: Callable[[], Driver]) -> None:
    driver = make_driver()
    assert ask(driver, "abort", uid=0)["error"] == "r0 does not run; no request can be aborted"
    first = ask(driver, "add", prompt=[97, 98, 99], max_tokens=9)["uid"]
    second = ask(driver, "add", prompt=[97, 98, 99, 100, 101], max_tokens=3)["uid"]
    said = ask(driver, "abort", uid=77)["error"]
    assert said == f"r77 does not run; r{first}, r{second} can be aborted"
    for _ in range(3):
        ask(driver, "step")
    assert ask(driver, "abort", uid=first)["error"] is None
    frames = ask(driver, "step")["frames"]
    assert any(frame["phase"] == "abort" for frame in frames)
    frames += run_to_the_end(driver)
    assert tokens_of(frames, first) == []
    state = driver.trace().state_at(len(driver.trace()) - 1)
    assert state.reqs[first].state == "aborted"
    assert (state.reqs[second].state, state.balance().in_flight) == ("done", 0)


@pytest.mark.parametrize(
    "make_driver",
    [scripted, overlapped, real, real_overlapped, toy, late_toy, piped, piped_overlapped],
)
def test_reset_makes_a_new_run_with_other_settings(make_driver: Callable[[], Driver]) -> None:
    driver = make_driver()
    ask(driver, "add", prompt=[97, 98, 99, 100, 101], max_tokens=4)
    ask(driver, "step")
    answer = ask(driver, "reset", page_size=2, num_pages=20, cache_type="naive", budget=3)
    assert (answer["error"], answer["frames"], answer["busy"]) == (None, [], False)
    meta = answer["meta"]
    assert (meta["page_size"], meta["num_pages"]) == (2, 20)
    assert (meta["cache_type"], meta["budget"]) == ("naive", 3)
    uid = ask(driver, "add", prompt=[97, 98, 99, 100, 101], max_tokens=2)["uid"]
    frames = run_to_the_end(driver)
    assert any(entry["chunk"] for frame in frames for entry in frame.get("admit", ()))
    assert len(tokens_of(frames, uid)) == 2
    assert ask(driver, "reset")["meta"]["loop"] == meta["loop"]


@pytest.mark.parametrize("make_driver", [scripted, real, toy, piped])
def test_a_reset_that_fails_leaves_the_run_as_it_was(
    make_driver: Callable[[], Driver],
) -> None:
    driver = make_driver()
    uid = ask(driver, "add", prompt=[97, 98, 99], max_tokens=3)["uid"]
    for settings, said in [
        ({"cache_type": "lru"}, "lru"),
        ({"page_size": 0}, "page_size 0"),
        ({"rows": 3}, "rows can't be set; page_size, num_pages, cache_type, budget can"),
        ({"num_pages": "many"}, "num_pages 'many' is not a number, 1 or more"),
    ]:
        assert said in ask(driver, "reset", **settings)["error"]
    assert len(tokens_of(run_to_the_end(driver), uid)) == 3


def test_a_scheduler_that_was_handed_over_cannot_be_made_anew() -> None:
    said = ask(fixed(), "reset", page_size=2)["error"]
    assert said == "this scheduler can't be made anew; give the driver a function"


def test_reset_shares_the_weights_and_leaves_the_readers_llm_alone() -> None:
    llm = LLM("tiny", page_size=4, num_pages=32)
    driver = LocalDriver(llm)
    ask(driver, "reset", page_size=2)
    first = driver.scheduler
    assert isinstance(first, LLM) and first is not llm
    assert first.engine.model is llm.engine.model
    ask(driver, "reset", page_size=1)
    assert first.closed and not llm.closed
    assert llm.generate(["abc"], SamplingParams(max_tokens=2))[0]["error"] is None


def test_reset_of_a_toy_makes_another_that_knows_its_words() -> None:
    before = Toy(page_size=4, num_pages=16)
    before.add("the cat sat", says="down .")
    driver = LocalDriver(before)
    run_to_the_end(driver)
    assert ask(driver, "reset", num_pages=12)["meta"]["num_pages"] == 12
    assert driver.scheduler is not before
    uid = ask(driver, "add", prompt="cat sat", max_tokens=3)["uid"]
    frames = run_to_the_end(driver)
    words = {before.tokenizer.decode([token]) for token in tokens_of(frames, uid)}
    assert words == {"cat", "sat"}
    assert before.text(1) == "down ." and before.turn > 0


def test_a_toy_answers_a_typed_prompt_with_its_own_words() -> None:
    driver = toy()
    uid = ask(driver, "add", prompt="one two three", max_tokens=4)["uid"]
    shown = tokens_of(run_to_the_end(driver), uid)
    assert [driver.scheduler.tokenizer.decode([token]) for token in shown] == [
        "one",
        "two",
        "three",
        "three",
    ]


def test_a_toy_has_no_other_settings() -> None:
    with pytest.raises(ValueError, match="a toy has no colour; it has page_size, num_pages, "):
        Toy().fork(colour="red")


def test_prompts_as_text_go_through_the_tokenizer() -> None:
    driver = real()
    assert isinstance(driver.scheduler, LLM)
    ask(driver, "add", prompt="hé", max_tokens=3)
    run_to_the_end(driver)
    trace = driver.trace()
    assert trace.frames[0]["reqs"]["0"]["ids"] == driver.scheduler.tokenizer.encode("hé")
    assert b"".join(trace.vocab[t] for t in trace.frames[0]["reqs"]["0"]["ids"]).endswith(
        "hé".encode()
    )


def test_a_scripted_engine_takes_numbers_or_its_own_encoding() -> None:
    driver = scripted()
    ask(driver, "add", prompt="97, 98 99", max_tokens=2)
    frames = run_to_the_end(driver)
    assert frames[0]["reqs"]["0"]["ids"] == [97, 98, 99]
    said = ask(driver, "add", prompt="hello")["error"]
    assert said == "prompt 'hello': this engine has no tokenizer, type token ids: 5, 6, 7"
    driver = fixed()
    ask(driver, "add", prompt="abc", max_tokens=2)
    assert run_to_the_end(driver)[0]["reqs"]["0"]["ids"] == [97, 98, 99]


def test_same_tokens_as_an_engine_of_its_own() -> None:
    driver = real()
    uid = ask(driver, "add", prompt="The page table", max_tokens=8)["uid"]
    shown = tokens_of(run_to_the_end(driver), uid)
    with LLM("tiny", page_size=1, num_pages=64) as llm:
        alone = llm.generate(["The page table"], SamplingParams(max_tokens=8))[0]
    assert shown[: len(alone["token_ids"])] == alone["token_ids"]


def test_a_cell_of_the_reader_can_run_in_between() -> None:
    """``generate`` on the same LLM: its frames come with the next answer, its uids don't clash."""
    driver = real()
    llm = driver.scheduler
    assert isinstance(llm, LLM)
    first = ask(driver, "add", prompt="abcdef", max_tokens=6)["uid"]
    ask(driver, "step")
    assert llm.generate(["abc"], SamplingParams(max_tokens=2))[0]["error"] is None
    second = ask(driver, "add", prompt="abcd", max_tokens=2)["uid"]
    run_to_the_end(driver)
    state = State(driver.trace().meta)
    for frame in driver.trace().frames:
        state.apply(frame)
    assert {first, second} < set(state.reqs) and len(state.reqs) == 3
    assert_same(state, llm)


def test_several_drivers_over_one_llm_see_one_run() -> None:
    llm = LLM("tiny", page_size=4, num_pages=32)
    drivers = [LocalDriver(llm) for _ in range(3)]
    assert len(llm.hooks.listeners) == 2
    ask(drivers[0], "add", prompt="abc", max_tokens=3)
    frames = run_to_the_end(drivers[0])
    late = LocalDriver(llm)
    assert [len(ask(driver, "pause")["frames"]) for driver in drivers] == [0] + [len(frames)] * 2
    assert json.loads(json.dumps(late.trace().frames)) == frames
    assert ask(late, "pause")["frames"] == []


def test_what_the_sanitizer_finds_stands_in_the_frames() -> None:
    driver = scripted()
    ask(driver, "add", prompt=[97, 98, 99], max_tokens=4)
    ask(driver, "step")
    driver.scheduler.engine.kv_cache.k_cache(1).view(-1)[1] = 5.0
    answer = ask(driver, "step")
    assert answer["error"] is None
    faults = [frame["fault"] for frame in answer["frames"] if "fault" in frame]
    assert len(faults) == 1
    assert (faults[0]["kind"], faults[0]["uid"], faults[0]["slot"]) == ("overwritten", 0, 1)
    assert (faults[0]["layer"], faults[0]["position"]) == (1, 1)


def test_a_step_that_fails_is_an_answer_and_the_next_one_works() -> None:
    driver = scripted()
    ask(driver, "add", prompt=[97, 98, 99], max_tokens=4)
    engine = driver.scheduler.engine
    forward = engine.forward_batch

    def failing(*args: Any) -> Any:
        engine.forward_batch = forward
        raise MemoryError("no room\nat all")

    engine.forward_batch = failing
    answer = ask(driver, "step")
    assert answer["error"] == "MemoryError: no room"
    assert [frame["phase"] for frame in answer["frames"]][-1] == "release"
    uid = ask(driver, "add", prompt=[97, 98], max_tokens=2)["uid"]
    assert len(tokens_of(run_to_the_end(driver), uid)) == 2


@pytest.mark.parametrize("make_driver", [toy, late_toy])
def test_a_toy_takes_words(make_driver: Callable[[], LocalDriver]) -> None:
    driver = make_driver()
    assert isinstance(driver.scheduler, Toy)
    driver.scheduler.add("the cat sat on", says="the mat .")
    uid = ask(driver, "add", prompt="the cat sat on the", max_tokens=2)["uid"]
    frames = run_to_the_end(driver)
    trace = driver.trace()
    assert (trace.meta["model"], trace.meta["special"]) == ("toy", [0])
    words = [trace.vocab[token] for token in tokens_of(frames, 1)]
    assert words == [b" the", b" mat", b" ."]
    assert len(tokens_of(frames, uid)) == 2
    assert "the prompt is empty" in ask(driver, "add", prompt="")["error"]


# ---- the recorded one ------------------------------------------------------------------------


def test_a_recorded_run_explains_what_it_cannot_do() -> None:
    driver = recorded()
    ask(driver, "step")
    said = ask(driver, "add", prompt="x", max_tokens=3)["error"]
    assert said == "this is a recorded run; a live one, in a notebook, takes prompts"
    assert "this is a recorded run" in ask(driver, "abort", uid=0)["error"]
    assert ask(driver, "reset", page_size=2)["error"] == (
        "this is a recorded run; its page_size can't be changed"
    )


def test_a_recorded_run_can_be_begun_again() -> None:
    driver = recorded()
    frames = run_to_the_end(driver)
    answer = ask(driver, "reset", page_size=4, cache_type="radix")
    assert answer["meta"]["page_size"] == 4
    assert (answer["frames"], answer["busy"]) == ([], True)
    assert run_to_the_end(driver) == frames


def test_a_loaded_trace_plays_as_the_recorded_one(tmp_path: Any) -> None:
    driver = recorded()
    path = driver._trace.save(tmp_path / "run.json")
    assert run_to_the_end(TraceDriver(Trace.load(path))) == run_to_the_end(driver)


# ---- the one in another process ----------------------------------------------------------------


def prints_and_reads() -> LocalDriver:
    """An engine whose code uses standard input and output for itself."""
    print('{"frames": "none of mine"}')
    driver = scripted()
    run = driver.scheduler.normal_loop

    def noisy() -> Any:
        print("a turn")
        assert sys.stdin.read() == ""
        return run()

    driver.scheduler.normal_loop = noisy  # type: ignore[method-assign]
    return driver


def leaves() -> LocalDriver:
    driver = scripted()
    driver.scheduler.normal_loop = lambda: os._exit(3)  # type: ignore[method-assign]
    return driver


def loops() -> LocalDriver:
    driver = scripted()
    driver.scheduler.normal_loop = lambda: time.sleep(60)  # type: ignore[method-assign]
    return driver


def fails() -> LocalDriver:
    raise RuntimeError("no engine today")


def test_its_frames_are_those_of_the_same_engine_here() -> None:
    answers = []
    for driver in (scripted(), piped()):
        ask(driver, "add", prompt=[97, 98, 99, 100, 101], max_tokens=4)
        answers.append(run_to_the_end(driver))
    assert answers[0] == answers[1]


def test_what_the_engine_prints_and_reads_stays_out_of_the_answers() -> None:
    driver = start("prints_and_reads")
    uid = ask(driver, "add", prompt=[97, 98, 99], max_tokens=2)["uid"]
    assert len(tokens_of(run_to_the_end(driver), uid)) == 2


def test_a_process_that_ends_is_said_then_and_later() -> None:
    driver = start("leaves")
    ask(driver, "add", prompt=[97, 98, 99])
    for _ in range(2):
        answer = ask(driver, "step")
        assert answer["error"] == "the engine's process has ended, with code 3"
        assert (answer["frames"], answer["busy"]) == ([], False)
    with pytest.raises(TraceError, match="has ended"):
        driver.trace()


def test_an_engine_that_never_began_is_said() -> None:
    assert ask(start("fails"), "step")["error"] == "the engine's process has ended, with code 1"


def test_an_engine_that_does_not_answer_in_time_is_ended() -> None:
    driver = start("loops", timeout=120)
    ask(driver, "add", prompt=[97, 98, 99])  # by now it has begun
    driver._timeout = 0.2
    said = "the engine did not answer within 0.2 s; it was ended"
    assert ask(driver, "step")["error"] == said
    assert driver._process is not None and driver._process.poll() is not None
    assert ask(driver, "pause")["error"] == said


def test_a_command_that_cannot_travel_is_said_and_others_go_on() -> None:
    driver = piped()
    assert "can't travel" in driver.command({"op": "add", "prompt": object()})["error"]
    assert ask(driver, "add", prompt=[97], max_tokens=1)["error"] is None


def test_two_pipes_are_enough() -> None:
    """No process: the other end is a thread, and what comes from it may be nonsense."""
    up, down = os.pipe(), os.pipe()
    engine = (os.fdopen(down[0]), os.fdopen(up[1], "w"))
    driver = PipeDriver(os.fdopen(down[1], "w"), os.fdopen(up[0]))
    threading.Thread(target=serve, args=(scripted(), *engine), daemon=True).start()
    ask(driver, "add", prompt=[97, 98], max_tokens=2)
    assert run_to_the_end(driver) == json.loads(json.dumps(driver.trace().frames))
    engine[1].write("hello\n")
    engine[1].flush()
    said = "the engine answered 'hello\\n', which is no answer; it was ended"
    assert ask(driver, "pause")["error"] == said


def test_a_view_shows_an_engine_in_another_process() -> None:
    pytest.importorskip("anywidget")
    widget = show(piped())
    for command in ({"op": "add", "prompt": [97, 98, 99], "max_tokens": 2}, {"op": "run"}):
        answer = widget._answer({**command, "id": "1"})
        assert answer["error"] is None
    assert answer["frames"]
    assert len(widget._history.trace) == len(answer["frames"])


@pytest.mark.parametrize("target", ["", "json", "json:nothing", "no_such_module:make"])
def test_what_names_no_engine_is_said(target: str) -> None:
    with pytest.raises(ValueError, match="is not module:function"):
        make_driver(target)
