"""What people do to an engine that nobody told them not to: it answers, or says what is wrong."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch

from minisgl_lite import LLM, SamplingParams
from minisgl_lite.hooks import HookError, Listener
from minisgl_lite.toy import Toy

GREEDY = SamplingParams(max_tokens=6)


def make() -> LLM:
    return LLM("tiny", num_pages=64)


def say(llm: LLM, params: SamplingParams = GREEDY) -> list[int]:
    return list(llm.generate(["hello"], params)[0]["token_ids"])


@pytest.fixture(scope="module")
def want() -> list[int]:
    with make() as llm:
        return say(llm)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 2.5},
        {"max_tokens": float("nan")},
        {"max_tokens": "3"},
        {"temperature": "x"},
        {"temperature": None},
        {"top_k": 2.5},
        {"top_p": "1"},
        {"seed": 2.5},
    ],
    ids=str,
)
def test_a_parameter_of_the_wrong_type_is_its_own_request_s_error(
    fields: dict[str, Any], want: list[int]
) -> None:
    name, value = next(iter(fields.items()))
    with make() as llm:
        good, bad = llm.generate(["hello", "b"], [GREEDY, SamplingParams(**fields)])
        assert good["token_ids"] == want
        assert f"{name} {value!r} is not allowed" in bad["error"]
        llm.run_when_idle()
        assert not llm.status_map and not llm.has_work


@pytest.mark.parametrize("prompt", [None, 5, b"abc", {1, 2}, {"a": 1}], ids=repr)
def test_a_prompt_of_the_wrong_type_stops_nobody(prompt: Any, want: list[int]) -> None:
    with make() as llm:
        good, bad = llm.generate(["hello", prompt], GREEDY)
        assert good["token_ids"] == want
        assert "a prompt is text or a list of token ids" in bad["error"]
        assert not llm.status_map


def test_params_that_are_none_and_ids_of_numpy(want: list[int]) -> None:
    with make() as llm:
        bad, good = llm.generate(["a", "hello"], [None, GREEDY])  # type: ignore[list-item]
        assert "sampling_params None is not allowed" in bad["error"]
        assert good["token_ids"] == want
        ids = [np.int64(byte) for byte in b"hello"]
        assert llm.generate(iter([ids]), GREEDY)[0]["token_ids"] == want


def test_params_changed_during_a_run_change_nothing(want: list[int]) -> None:
    params = SamplingParams(max_tokens=6)
    with make() as llm:
        stream = llm.stream(["hello"], params)
        tokens = [next(stream).token]
        params.temperature, params.max_tokens = 50.0, 1
        assert tokens + [event.token for event in stream] == want


@pytest.mark.parametrize("temperature", [1e-30, 1e-38, 1e-300])
def test_a_tiny_temperature_is_greedy(temperature: float, want: list[int]) -> None:
    with make() as llm:
        assert say(llm, SamplingParams(max_tokens=6, temperature=temperature, seed=1)) == want


def test_two_engines_in_two_threads_say_what_they_say_alone(want: list[int]) -> None:
    answers: list[list[int]] = []
    with make() as first, make() as second:
        threads = [
            Thread(target=lambda llm=llm: answers.extend(say(llm) for _ in range(15)))
            for llm in (first, second)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [want] * 30


def test_a_turn_inside_a_turn_is_refused_and_harms_nothing(want: list[int]) -> None:
    class Reenters(Listener):
        def on_prepare(self, forward_input: Any) -> None:
            llm.run_turn()

    with make() as llm:
        listener = Reenters()
        llm.hooks.attach(listener)
        with pytest.raises(HookError, match="a turn of this scheduler is running"):
            say(llm)
        llm.hooks.detach(listener)
        llm.run_when_idle()
        assert say(llm) == want


@pytest.mark.parametrize("overlap", [False, True])
def test_a_stream_closed_inside_a_turn_is_released_by_the_next(
    overlap: bool, want: list[int]
) -> None:
    class Closes(Listener):
        def on_prepare(self, forward_input: Any) -> None:
            other.close()

    with LLM("tiny", num_pages=64, overlap=overlap) as llm:
        other = llm.stream(["x"], SamplingParams(max_tokens=20))
        next(other)
        listener = Closes()
        llm.hooks.attach(listener)
        assert say(llm) == want
        llm.hooks.detach(listener)
        gc.collect()
        assert say(llm) == want
        while llm.has_work:
            llm.run_turn()
        llm.run_when_idle()


def test_a_hook_interrupted_by_the_keyboard_loses_no_page(want: list[int]) -> None:
    class Interrupted(Listener):
        def on_node_add(self, node: Any) -> None:
            raise KeyboardInterrupt

    with make() as llm:
        listener = Interrupted()
        llm.hooks.attach(listener)
        with pytest.raises(KeyboardInterrupt):
            say(llm)
        llm.hooks.detach(listener)
        llm.run_when_idle()
        assert say(llm) == want


def test_the_loop_can_be_changed_while_a_step_is_on_the_device(want: list[int]) -> None:
    with LLM("tiny", num_pages=64, overlap=True) as llm:
        stream = llm.stream(["hello"], GREEDY)
        tokens = [next(stream).token]
        llm.overlap = False
        assert tokens + [event.token for event in stream] == want
        assert not llm.has_work
        llm.run_when_idle()


def test_settings_survive_a_fork_and_weights_keep_their_type() -> None:
    with LLM("tiny", num_pages=64, eos_token_id=59, max_extend_tokens=5) as llm:
        child = llm.fork(page_size=4)
        assert child.eos_token_ids == {59} and child.prefill_budget == 5
        with pytest.raises(ValueError, match=r"dtype torch.float16 is not that of the shared"):
            llm.fork(dtype=torch.float16)
    with LLM("tiny", num_pages=64, eos_token_id=0) as llm:
        assert llm.eos_token_ids == {0}


@pytest.mark.parametrize(
    "use",
    [
        lambda llm: llm.generate(["x"]),
        lambda llm: list(llm.stream(["x"])),
        lambda llm: llm.fork(),
        lambda llm: llm.tokenizer,
        lambda llm: llm.run_turn(),
    ],
    ids=["generate", "stream", "fork", "tokenizer", "run_turn"],
)
def test_use_after_close_says_so(use: Callable[[LLM], Any]) -> None:
    llm = make()
    llm.close()
    with pytest.raises(RuntimeError, match="this LLM is closed; make a new one"):
        use(llm)


def test_a_toy_refuses_a_uid_that_still_runs() -> None:
    toy = Toy()
    toy.add("a b", says="c d e", uid=2)
    with pytest.raises(ValueError, match="request 2 still runs"):
        toy.add("a b", says="z", uid=2)
    assert toy.add("q", says="z") == 3
    toy.run()
    assert toy.text(2) == "c d e"


@pytest.mark.parametrize("sizes", [{"num_pages": 10**14}, {"num_pages": 1, "page_size": 10**14}])
def test_a_pool_beyond_all_memory_is_refused_in_one_line(sizes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"pages of \d+ tokens takes [\d,.]+ GiB"):
        LLM("tiny", **sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("event", ["on_turn_begin", "on_allocate", "on_attend", "on_release"])
def test_a_real_ctrl_c_in_the_middle_of_a_turn_waits_for_its_end(
    event: str, overlap: bool, want: list[int]
) -> None:
    """The signal itself, at moments when pages are between two owners."""
    after: list[str] = []

    def press(self: Listener, *args: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        after.append("the turn went on")

    former = signal.getsignal(signal.SIGINT)
    with LLM("tiny", num_pages=64, overlap=overlap) as llm:
        listener = type("Presses", (Listener,), {event: press})()
        llm.hooks.attach(listener)
        with pytest.raises(KeyboardInterrupt):
            llm.generate(["hello", "help"], SamplingParams(max_tokens=3, ignore_eos=True))
        llm.hooks.detach(listener)
        assert after
        while llm.has_work:
            llm.run_turn()
        llm.run_when_idle()
        assert not llm.status_map and llm.table_manager.available_size == 256
        assert say(llm) == want
    assert signal.getsignal(signal.SIGINT) is former
