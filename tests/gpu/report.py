"""What the GPU check says, and how one part that fails leaves the others alone."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from tests.gpu.plan import Plan

BUDGET = 220.0
"""Seconds after which no further part begins; what is left out is named."""


class Report:
    """Prints as it goes, so that a run cut short has said what it saw."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.started = time.perf_counter()
        self.wrong: list[str] = []
        self.left_out: list[str] = []
        self.rows: list[tuple[str, str, str, str]] = []

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.started

    def say(self, text: str) -> None:
        print(f"[{self.elapsed:5.1f} s] {text}", flush=True)

    def verdict(self, good: bool, text: str) -> None:
        if not good:
            self.wrong.append(text)
        self.say(f"{'ok   ' if good else 'WRONG'} {text}")

    def row(self, what: str, value: str, flash_attn: str = "", goal: str = "") -> None:
        self.rows.append((what, "a dry run" if self.plan.is_dry else value, flash_attn, goal))

    def table(self) -> str:
        head = ("measured", "value", "flash-attn", "goal")
        lines = [head, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )


def attempt(report: Report, name: str, part: Callable[[], None]) -> None:
    if report.elapsed > BUDGET and not report.plan.is_dry:
        report.left_out.append(name)
        return
    try:
        part()
    except Exception as error:
        report.verdict(False, f"{name}: {type(error).__name__}: {error}")
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
