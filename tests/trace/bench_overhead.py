"""What recording and sanitizing add to a decode step of the real model: ``python FILE [steps]``.

Three engines over the same weights run the same requests, one step each in turn, so that a busy
machine slows all alike; process time on one thread, medians.
"""

from __future__ import annotations

import statistics
import sys
import time
import timeit

import torch

from minisgl_lite import LLM, SamplingParams
from minisgl_lite.hooks import Hooks, Listener
from minisgl_lite.trace import KVSanitizer, Recorder


def _steps(steps: int, batch: int) -> dict[str, list[float]]:
    base = LLM("smollm2", page_size=16, num_pages=256)
    engines = {"plain": base, "recorder": base.fork(), "sanitizer": base.fork()}
    Recorder(engines["recorder"])
    KVSanitizer(engines["sanitizer"])
    params = SamplingParams(max_tokens=steps + 10, ignore_eos=True)
    for llm in engines.values():
        for uid in range(batch):
            text = f"{uid} is a number. " + "The cache keeps what was computed before. " * 8
            llm._submit(uid, text, params)
        for _ in range(3):
            llm.run_turn()
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(steps):
        for name, llm in engines.items():
            begin = time.process_time()
            llm.run_turn()
            times[name].append(time.process_time() - begin)
    return times


def _hook_costs() -> None:
    silent, heard = Hooks(), Hooks()
    heard.attach(Listener())
    for name, hooks in (("nobody attached", silent), ("a listener without this hook", heard)):
        code = "if hooks.active: hooks.emit('on_turn_end', 1)"
        best = min(timeit.repeat(code, globals={"hooks": hooks}, number=100_000, repeat=7)) / 1e5
        print(f"hook, {name}: {best * 1e9:.0f} ns")


def main() -> None:
    torch.set_num_threads(1)
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    _hook_costs()
    for batch in (1, 8):
        times = _steps(steps, batch)
        plain = statistics.median(times["plain"])
        print(f"batch {batch}, {steps} steps: plain {plain * 1e3:.1f} ms")
        for name in ("recorder", "sanitizer"):
            pairs = zip(times[name], times["plain"], strict=True)
            added = statistics.median(mine - base for mine, base in pairs)
            print(f"  {name} adds {added * 1e3:.2f} ms, {added / plain:.1%} (median of pairs)")


if __name__ == "__main__":
    main()
