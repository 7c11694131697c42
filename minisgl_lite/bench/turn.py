"""What a reader waits for in a live view: one turn of the driver, recorded and checked."""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

from ..llm import LLM
from ..utils import require
from ..viz.driver import LocalDriver
from .timing import Measured
from .workloads import Prompts, prompts_of

REQUESTS, PROMPT, TOKENS = 3, 24, 40
ALLOWED = 0.08
"""Seconds: what a turn may take to feel immediate."""


def live_turns(model: str, rounds: int) -> Measured:
    """Seconds of a turn, median and 95th percentile of each round.

    A round is a run of three requests, prefill and decode turns, under recorder and sanitizer; a
    turn is a command with its answer as JSON, without the way to the browser.
    """
    tqdm: Any = require("tqdm", extra="bench")
    with LLM(model, page_size=4, num_pages=128) as llm:
        driver = LocalDriver(llm)
        prompts = prompts_of(REQUESTS, PROMPT, llm.engine.sampler.vocab_size)
        found = Measured("live turn", "s", {"median": [], "95th percentile": [], "allowed": []})
        for _ in tqdm.tqdm(range(rounds), desc=found.workload, unit="round", leave=False):
            llm.cache_manager.reset()
            times = _run(driver, prompts)
            values = statistics.median(times), statistics.quantiles(times, n=20)[-1], ALLOWED
            for name, value in zip(found.rounds, values, strict=True):
                found.rounds[name].append(value)
        return found


def _run(driver: LocalDriver, prompts: Prompts) -> list[float]:
    """Seconds of each turn until all prompts are answered."""
    for prompt in prompts:
        driver.command({"op": "add", "prompt": prompt, "max_tokens": TOKENS})
    times, busy = [], True
    while busy:
        start = time.perf_counter()
        answer = driver.command({"op": "run"})
        json.dumps(answer)
        times.append(time.perf_counter() - start)
        if answer["error"] is not None:
            raise RuntimeError(answer["error"])
        busy = answer["busy"]
    return times


__all__ = ["ALLOWED", "live_turns"]
