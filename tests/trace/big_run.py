"""The run that sizes and speeds of traces and views are measured on: 300 steps, 232 requests.

A scripted engine with 4,096 slots and a table of 64 x 512, seeded, so that everybody measures the
same. ``python tests/trace/big_run.py FILE`` writes it; without FILE it prints sizes.
"""

from __future__ import annotations

import random
import sys
from itertools import accumulate

import torch

from minisgl_lite.core import SamplingParams
from minisgl_lite.engine.scripted import ScriptedEngine
from minisgl_lite.message import AbortBackendMsg, UserMsg
from minisgl_lite.scheduler import MessageQueue, Scheduler, SchedulerConfig
from minisgl_lite.trace import Recorder, Trace

TURNS, REQUESTS, SLOTS, ROWS, WIDTH = 300, 232, 4096, 64, 512
VOCAB = 49_152


def _texts(rng: random.Random) -> list[int]:
    """Token ids as often as words are: the n-th with a share of 1/n."""
    ids = rng.sample(range(VOCAB), 4000)
    weights = list(accumulate(1 / n for n in range(1, 4001)))
    return rng.choices(ids, cum_weights=weights, k=60_000)


def big_run(
    *,
    page_size: int = 16,
    cache_type: str = "radix",
    seed: int = 20,
    slots: int = SLOTS,
    turns: int = TURNS,
    requests: int = REQUESTS,
) -> Trace:
    """Record the run. Some prompts share a beginning, some are aborted, the pool is often full."""
    rng = random.Random(seed)
    text = _texts(rng)

    def piece(length: int) -> list[int]:
        start = rng.randrange(len(text) - length)
        return text[start : start + length]

    answers = [piece(64) for _ in range(requests)]
    stems = [piece(rng.randrange(16, 65)) for _ in range(8)]
    engine = ScriptedEngine(
        slots // page_size,
        page_size,
        max_running_req=ROWS,
        max_seq_len=WIDTH,
        script=dict(enumerate(answers)),
        num_layers=1,
    )
    config = SchedulerConfig(
        page_size=page_size, max_running_req=ROWS, max_extend_tokens=512, cache_type=cache_type
    )
    scheduler = Scheduler(config, engine, MessageQueue())
    recorder = Recorder(scheduler)
    arrivals = sorted(rng.randrange(turns - 60) for _ in range(requests))
    uid = 0
    for turn in range(turns):
        while uid < requests and arrivals[uid] <= turn:
            prompt = rng.choice(stems) if rng.random() < 0.6 else piece(rng.randrange(8, 40))
            ids = torch.tensor([*prompt, *piece(rng.randrange(4, 32))], dtype=torch.int32)
            scheduler.io.send(UserMsg(uid, ids, SamplingParams(max_tokens=rng.randrange(8, 56))))
            uid += 1
        if rng.random() < 0.05 and uid:
            scheduler.io.send(AbortBackendMsg(rng.randrange(uid)))
        scheduler.normal_loop()
    return recorder.trace()


def main() -> None:
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        print(big_run().save(sys.argv[1]))
        return
    for page_size in (1, 4, 16):
        trace = big_run(page_size=page_size)
        tokens = sum(len(frame.get("tokens", ())) for frame in trace.frames)
        size = len(trace.to_widget())
        print(f"P={page_size}: {len(trace)} frames, {tokens} tokens, {size:,} bytes in a page")


if __name__ == "__main__":
    main()
