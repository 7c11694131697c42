"""Check the package on an NVIDIA GPU, and measure it there.

    python tests/gpu/check.py             all of it, within 4 minutes; without a GPU, says so
    python tests/gpu/check.py --tune      other block sizes for decode attention, too
    python tests/gpu/check.py --dry-run   the same code on a CPU, small; measures nothing

Needs torch, triton and numpy, nothing else. Ends with 1 if anything was wrong. A goal that was
missed is printed and changes nothing: speed depends on the GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    if "--dry-run" in sys.argv:
        os.environ["TRITON_INTERPRET"] = "1"  # NOTE: before triton is imported
    sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from minisgl_lite.models import ModelConfig
from tests.gpu import engines, kernels
from tests.gpu.plan import Plan, dry_plan, full_plan
from tests.gpu.report import BUDGET, Report, attempt

# ---- right ---------------------------------------------------------------------------------------


def check_kernels(plan: Plan, report: Report) -> None:
    for verdict in kernels.check_kernels(plan):
        text = f"{verdict.what}: error {verdict.error:.1e}, allowed {verdict.allowed:.1e}"
        report.verdict(verdict.good, text)


def check_engine(plan: Plan, report: Report, config: ModelConfig) -> None:
    """In fp32: four ways to run the same requests, which must say the same."""
    loaded = engines.load_random(plan, config, torch.float32)
    prompts = engines.make_prompts(plan, config)
    runs = {}
    for graphs in (False, True):
        for overlap in (False, True):
            name = f"{'graphs' if graphs else 'eager'}, {'overlap' if overlap else 'normal'}"
            with engines.make_llm(
                plan, loaded, torch.float32, graphs=graphs, overlap=overlap
            ) as llm:
                captured = sorted(llm.engine.graph_runner.graph_map)
                if not plan.is_dry:
                    assert bool(captured) == graphs, "graphs are not what was asked for"
                runs[name] = engines.run(llm, prompts, plan.new_tokens, margins=True)
    wanted = runs.pop("eager, normal")
    total = sum(map(len, wanted.tokens))
    for name, run in runs.items():
        differing = engines.first_differences(wanted, run)
        text = f"{config.model_type} fp32, {name}: {total} tokens as the eager normal loop's"
        if differing:
            uid, at, margin = max(differing, key=lambda found: found[2])
            text += f", but {len(differing)} requests differ, at most {margin:.1e} from a tie"
            text += f" (request {uid}, token {at})"
        report.verdict(all(margin <= engines.TIE for *_, margin in differing), text)


# ---- fast ----------------------------------------------------------------------------------------


def measure_kernels(plan: Plan, report: Report, *, tune: bool) -> None:
    copy = kernels.copy_speed(plan)
    report.row("copy, read + written", f"{copy / 1e9:,.0f} GB/s")
    for config in plan.models:
        add_speed(report, kernels.store_speed(plan, config), copy)
        for page_size in (16, 256):
            add_speed(report, kernels.decode_speed(plan, config, page_size), copy)
        report.say(f"measured the kernels of {config.model_type}")
    if tune:
        for speed in kernels.tune_decode(plan, plan.models[0]):
            add_speed(report, speed, copy)


def add_speed(report: Report, speed: kernels.Speed, copy: float) -> None:
    theirs = "" if speed.flash_attn is None else f"{speed.flash_attn / copy:.0%} of copy"
    goal = "" if speed.goal is None else f"{speed.goal:.0%} on an H200"
    report.row(speed.what, f"{speed.bytes_per_second / copy:.0%} of copy", theirs, goal)


def measure_engine(plan: Plan, report: Report, config: ModelConfig) -> None:
    """In bf16: tokens per second, and the host's share of a decode step."""
    loaded = engines.load_random(plan, config, torch.bfloat16)
    for graphs, overlap in ((False, False), (True, False), (True, True)):
        ways = f"{'graphs' if graphs else 'eager'}, {'overlap' if overlap else 'normal'}"
        with engines.make_llm(plan, loaded, torch.bfloat16, graphs=graphs, overlap=overlap) as llm:
            for count in (1, plan.requests):
                prompts = engines.make_prompts(plan, config)[:count]
                engines.run(llm, prompts, 2)  # compiles; the timed run finds its prefixes cached
                run = engines.run(llm, prompts, plan.new_tokens)
                speed = sum(map(len, run.tokens)) / run.seconds
                host = run.host_seconds_per_step * 1e3
                what = f"{config.model_type} bf16, {ways}, {count} requests"
                report.row(what, f"{speed:,.0f} tokens/s, {host:.2f} ms of host per decode step")
        report.say(f"measured {config.model_type}, {ways}")


def run_all(plan: Plan, report: Report, *, tune: bool) -> None:
    """Every part, even after one that failed: time on a GPU is scarce."""
    parts: list[tuple[str, Callable[..., Any], Iterable[Any]]] = [
        ("kernels", check_kernels, ()),
        *((f"tokens of {config.model_type}", check_engine, (config,)) for config in plan.models),
    ]
    for name, part, arguments in parts:
        attempt(report, name, lambda part=part, args=arguments: part(plan, report, *args))  # type: ignore[misc]
    attempt(report, "speed of kernels", lambda: measure_kernels(plan, report, tune=tune))
    for config in plan.models:
        attempt(
            report,
            f"speed of {config.model_type}",
            lambda config=config: measure_engine(plan, report, config),  # type: ignore[misc]
        )


def describe(plan: Plan) -> str:
    import triton

    versions = f"Python {sys.version.split()[0]}, torch {torch.__version__}"
    versions += f", triton {triton.__version__}"
    if plan.is_dry:
        return f"{versions}; a dry run on a CPU, which measures nothing"
    name = torch.cuda.get_device_name(plan.device)
    capability = ".".join(map(str, torch.cuda.get_device_capability(plan.device)))
    return f"{versions}; {name}, compute capability {capability}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune", action="store_true", help="time other block sizes, too")
    parser.add_argument("--dry-run", action="store_true", help="run the code, small, on a CPU")
    options = parser.parse_args(arguments)
    if not options.dry_run and not torch.cuda.is_available():
        print("no NVIDIA GPU here: nothing was checked, nothing was measured.")
        return 0
    plan = dry_plan() if options.dry_run else full_plan()
    report = Report(plan)
    report.say(describe(plan))
    run_all(plan, report, tune=options.tune)
    print(f"\n{report.table()}\n")
    for text in report.wrong:
        print(f"WRONG {text}")
    for name in report.left_out:
        print(f"not run, as {BUDGET:.0f} s were over: {name}")
    report.say("failed" if report.wrong else "all that was checked is right")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
