"""Rounds in which each contestant has its turn, and what is made of their times."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

import minisgl_lite

from ..kernel.blocks import blocks_kernel_is_there
from ..utils import require

Contestants = Mapping[str, Callable[[], float]]
"""Each does its work once and returns a rate, higher is better, or seconds: one kind per table."""


@dataclass
class Measured:
    """One workload: a value per round and contestant. ``unit``: of the values."""

    workload: str
    unit: str
    rounds: dict[str, list[float]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        return statistics.median(self.rounds[name])

    def ratio(self, name: str, to: str) -> float:
        """Median over the rounds of the ratio within a round."""
        pairs = zip(self.rounds[name], self.rounds[to], strict=True)
        return statistics.median(one / other for one, other in pairs)

    def as_dict(self) -> dict[str, Any]:
        return {"workload": self.workload, "unit": self.unit, "rounds": self.rounds}


def take_turns(
    workload: str, unit: str, contestants: Contestants, rounds: int, *, warm_up: bool = True
) -> Measured:
    """Run every contestant once to warm up, then ``rounds`` times, in alternating order."""
    tqdm: Any = require("tqdm", extra="bench")
    measured = Measured(workload, unit, {name: [] for name in contestants})
    names = list(contestants)
    for round_number in tqdm.tqdm(
        range(-int(warm_up), rounds), desc=workload, unit="round", leave=False
    ):
        for name in names if round_number % 2 else names[::-1]:
            value = contestants[name]()
            if round_number >= 0:
                measured.rounds[name].append(value)
    return measured


def machine() -> dict[str, Any]:
    """What the figures depend on, without names of the machine."""
    return {
        "date": datetime.date.today().isoformat(),
        "cpus": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "processor": _processor(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": _version("transformers"),
        "minisgl_lite": minisgl_lite.__version__,
        "c_kernels": blocks_kernel_is_there(),
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", ""),
        "GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", ""),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor()


def table(measured: list[Measured], base: str) -> str:
    """A Markdown table: medians, and ratios to ``base`` where it took part."""
    lines = ["| workload | contestant | median | ratio to " + base + " |", "|---|---|---|---|"]
    for one in measured:
        for name in one.rounds:
            known = base in one.rounds
            ratio = f"{one.ratio(name, base):.2f}" if known else ""
            value = f"{one.median(name):,.3g} {one.unit}"
            lines.append(f"| {one.workload} | {name} | {value} | {ratio} |")
    return "\n".join(lines)


__all__ = ["Contestants", "Measured", "machine", "table", "take_turns"]
