"""What nobody should hand in is refused at once and by name, and harms nobody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.world import LOOPS, World, make_world

from minisgl_lite import LLM, SamplingParams
from minisgl_lite.core import Context
from minisgl_lite.engine.scripted import ScriptedEngine
from minisgl_lite.message import UserMsg
from minisgl_lite.scheduler import MessageQueue, Scheduler, SchedulerConfig
from minisgl_lite.scheduler.table import TableManager
from minisgl_lite.toy import Toy
from minisgl_lite.trace import KVSanitizer, Recorder

IDS = torch.tensor([1, 2, 3], dtype=torch.int32)
TWO = SamplingParams(max_tokens=2)
GOOD = UserMsg(1, IDS, TWO)

MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "ids-are-a-list": ({"input_ids": [1, 2, 3]}, "input_ids [1, 2, 3] is not allowed: a tensor"),
    "ids-are-none": ({"input_ids": None}, "input_ids None is not allowed"),
    "ids-of-two-dimensions": ({"input_ids": IDS[None]}, "input_ids of shape (1, 3)"),
    "ids-of-no-dimension": ({"input_ids": IDS[0]}, "input_ids of shape ()"),
    "ids-are-floats": ({"input_ids": IDS.float()}, "torch.float32"),
    "ids-are-truths": ({"input_ids": IDS > 1}, "torch.bool"),
    "params-are-a-dict": ({"sampling_params": {"max_tokens": 2}}, "a SamplingParams"),
    "params-are-none": ({"sampling_params": None}, "sampling_params None is not allowed"),
    "uid-of-the-dummy": ({"uid": -1}, "uid -1 is not allowed: a whole number of 0 or more"),
    "uid-is-text": ({"uid": "1"}, "uid '1' is not allowed"),
    "temperature-beyond-a-float": (
        {"sampling_params": SamplingParams(temperature=10**400)},
        "is not allowed: 0 or more",
    ),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("changes", "words"), MESSAGES.values(), ids=MESSAGES)
def test_a_bad_message_is_its_own_error(loop: str, changes: dict[str, Any], words: str) -> None:
    world = make_world(16, 4, loop=loop)
    bad = replace(UserMsg(2, IDS, TWO), **changes)
    world.io.send(GOOD, bad, replace(GOOD, uid=3))
    world.run()
    assert words in world.error_of(bad.uid)
    for uid in (1, 3):
        assert world.replies_of(uid) == [(7, False), (7, True)]


@pytest.mark.parametrize("loop", LOOPS)
def test_what_is_no_message_ends_the_turn_and_loses_no_other(loop: str) -> None:
    world = make_world(16, 4, loop=loop)
    world.add(1, [1, 2, 3], 5)
    world.step(2)
    no_message: Any = "a word"
    world.io.send(replace(GOOD, uid=2), no_message, replace(GOOD, uid=3))
    with pytest.raises(TypeError, match="unknown message str"):
        world.step()
    world.run()
    assert [len(world.replies_of(uid)) for uid in (1, 2, 3)] == [5, 2, 2]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.uint8])
def test_ids_of_any_whole_type_hit_the_prefix_of_any_other(dtype: torch.dtype) -> None:
    world = make_world(16, 2)
    for uid, kind in enumerate((torch.int32, dtype, torch.int32)):
        world.io.send(UserMsg(uid, torch.arange(1, 7).to(kind), TWO))
        world.run()
    assert [world.extends[uid][0] for uid in range(3)] == [(0, 6), (4, 2), (4, 2)]


def test_numbers_that_are_no_floats_still_draw() -> None:
    odd: dict[str, Any] = {"temperature": Fraction(3, 2), "top_p": Fraction(1, 2)}
    params = SamplingParams(**odd, seed=1, max_tokens=3)
    with LLM("tiny", num_pages=16) as llm:
        same = replace(params, temperature=1.5, top_p=0.5)
        one, other = llm.generate([[1, 2], [1, 2]], [params, same])
    assert one["error"] is None and one["token_ids"] == other["token_ids"]


SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "pages-as-text": ({"num_pages": "5"}, "num_pages '5'"),
    "half-a-page": ({"num_pages": 2.5}, "num_pages 2.5"),
    "page-size-none": ({"page_size": None}, "page_size None"),
    "ratio-as-text": ({"memory_ratio": "x"}, "memory_ratio 'x'"),
    "ratio-none": ({"memory_ratio": None}, "memory_ratio None"),
    "backend-a-number": ({"attention_backend": 5}, "attention_backend 5"),
    "cache-a-number": ({"cache_type": 5}, "5; known: naive, radix"),
    "cache-none": ({"cache_type": None}, "None; known: naive, radix"),
    "dtype-as-text": ({"dtype": "float32"}, "dtype 'float32'"),
    "sizes-as-truths": ({"cuda_graph_bs": [True]}, "cuda_graph_bs [True]"),
    "sizes-as-text": ({"cuda_graph_bs": "4"}, "cuda_graph_bs 4"),
    "eos-as-text": ({"eos_token_id": "59"}, "eos_token_id '59'"),
    "eos-a-fraction": ({"eos_token_id": 2.5}, "eos_token_id 2.5"),
    "eos-with-none-among-them": ({"eos_token_id": [1, None]}, "eos_token_id [1, None]"),
    "budget-as-text": ({"max_extend_tokens": "8"}, "max_extend_tokens '8'"),
    "device-a-number": ({"device": 3}, "device '3'"),
}


@pytest.mark.parametrize(("settings", "words"), SETTINGS.values(), ids=SETTINGS)
def test_a_bad_setting_is_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        LLM("tiny", **{"num_pages": 16, **settings})
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_settings_may_be_a_device_and_several_eos() -> None:
    with LLM("tiny", num_pages=16, device=torch.device("cpu"), eos_token_id=(3, 4)) as llm:
        assert llm.eos_token_ids == {3, 4}


def test_params_that_are_no_list_are_refused_at_once() -> None:
    with LLM("tiny", num_pages=16) as llm:
        for params in (5, iter([TWO])):
            with pytest.raises(ValueError, match="neither one for all nor a list"):
                llm.generate([[1]], params)  # type: ignore[arg-type]
        assert not llm.status_map


def scheduler_of(engine: ScriptedEngine, **settings: Any) -> Scheduler:
    config = SchedulerConfig(**({"page_size": 4, "max_running_req": 8} | settings))
    return Scheduler(config, engine, MessageQueue())


MADE: dict[str, tuple[Callable[[], object], str]] = {
    "more-rows-than-the-table": (
        lambda: scheduler_of(ScriptedEngine(8, 4), max_running_req=256),
        "max_running_req 256 is not allowed: the engine's page table has 8 rows",
    ),
    "the-dummys-row-too": (
        lambda: scheduler_of(ScriptedEngine(8, 4), max_running_req=9),
        "max_running_req 9",
    ),
    "pages-of-another-size": (
        lambda: scheduler_of(ScriptedEngine(8, 4), page_size=2),
        "page_size 2 is not allowed: the engine has pages of 4",
    ),
    "no-budget": (
        lambda: scheduler_of(ScriptedEngine(8, 4), max_extend_tokens=0),
        "max_extend_tokens 0",
    ),
    "no-rows": (lambda: TableManager(0, torch.zeros(3, 32)), "max_running_reqs 0"),
    "fewer-than-none": (lambda: TableManager(-1, torch.zeros(3, 32)), "max_running_reqs -1"),
    "engine-without-pages": (lambda: ScriptedEngine(0, 4), "max_seq_len 0 is not allowed"),
    "pages-without-tokens": (lambda: ScriptedEngine(4, 0), "0 is not allowed: 1 or more"),
    "context-without-tokens": (lambda: Context(0), "page_size 0 is not allowed"),
    "context-of-text": (lambda: Context("4"), "page_size '4'"),  # type: ignore[arg-type]
    "toy-without-rows": (lambda: Toy(max_running_req=0), "max_running_req 0"),
    "model-a-number": (lambda: LLM(5), "model"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("make", "words"), MADE.values(), ids=MADE)
def test_parts_that_do_not_fit_are_refused_when_they_are_made(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    assert words in str(caught.value)


def test_a_model_may_be_named_by_a_path(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"nowhere.gguf: there is no such"):
        LLM(tmp_path / "nowhere.gguf")  # type: ignore[arg-type]


def test_refused_requests_leave_no_trace_in_a_world() -> None:
    world: World = make_world(16, 4)
    for changes, _ in MESSAGES.values():
        world.io.send(replace(UserMsg(2, IDS, TWO), **changes))
    world.run()
    assert len(world.free) == 16 and world.free_rows == 8 and world.scheduler.live_reqs() == []


@pytest.mark.parametrize("watcher", [KVSanitizer, Recorder])
def test_a_closed_engine_can_not_be_watched(watcher: Callable[[LLM], object]) -> None:
    llm = LLM("tiny", num_pages=16)
    llm.close()
    with pytest.raises(ValueError, match="this engine is closed"):
        watcher(llm)
