"""llama.cpp on the same file, where the package ``xllamacpp`` is installed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from ..models.gguf.source import find_smollm2
from ..utils import require
from .workloads import Prompts

ROOM = 64
"""Tokens of a slot beyond its prompt."""


def llamacpp_file(model: str) -> Path | None:
    """The file that llama.cpp would read for ``model``; None where it can't be asked."""
    if importlib.util.find_spec("xllamacpp") is None:
        return None
    path = find_smollm2() if model == "smollm2" else Path(model)
    return path if path.suffix == ".gguf" else None


def llamacpp_decode(path: Path, prompts: Prompts, tokens: int) -> Callable[[], float]:
    """Tokens per second of all prompts together, as many threads as torch has.

    NOTE: in a process of its own each time. In this one its threads would spin while others have
    their turn, which made all of them half as fast.
    """
    task = {"path": str(path), "prompts": prompts, "tokens": tokens}
    task["threads"] = torch.get_num_threads()
    command = [sys.executable, "-m", "minisgl_lite.bench.llamacpp"]

    def run() -> float:
        done = subprocess.run(command, input=json.dumps(task), capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"llama.cpp failed: {done.stderr.strip()[-300:]}")
        return float(done.stdout.split()[-1])

    return run


class LlamaCpp:
    """llama.cpp's server in this process, with one slot for each prompt."""

    def __init__(self, path: Path, prompts: Prompts, threads: int) -> None:
        xllamacpp: Any = require("xllamacpp", extra="bench")
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_parallel = len(prompts)
        params.n_ctx = len(prompts) * (max(map(len, prompts)) + ROOM)
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.verbosity = -1
        self.server = xllamacpp.Server(params)
        self.prompts = prompts

    def decode(self, tokens: int) -> float:
        """Tokens per second; the prompts are computed before the clock runs, but for the last token
        of each."""
        self._complete(1)
        start = time.perf_counter()
        made = self._complete(tokens)
        return made / (time.perf_counter() - start)

    def _complete(self, tokens: int) -> int:
        """Complete each prompt in its own slot, greedily; the tokens made."""
        with ThreadPoolExecutor(len(self.prompts)) as pool:
            answers = pool.map(lambda slot: self._ask(slot, tokens), range(len(self.prompts)))
            return sum(answers)

    def _ask(self, slot: int, tokens: int) -> int:
        answer = self.server.handle_completions(
            {
                "prompt": self.prompts[slot],
                "id_slot": slot,
                "n_predict": tokens,
                "ignore_eos": True,
                "temperature": 0,
                "cache_prompt": True,
            }
        )
        made: int = answer["timings"]["predicted_n"]
        if made != tokens:
            raise RuntimeError(f"llama.cpp made {made} tokens of {tokens}: {answer}")
        return made


__all__ = ["LlamaCpp", "llamacpp_decode", "llamacpp_file"]


if __name__ == "__main__":
    task = json.load(sys.stdin)
    llama = LlamaCpp(Path(task["path"]), task["prompts"], task["threads"])
    print(llama.decode(task["tokens"]))
