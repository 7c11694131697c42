"""What the GPU check runs: the whole of it on a GPU, a small part of it as a dry run on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from minisgl_lite.models import ModelConfig, RotaryConfig


def shape(
    name: str,
    layers: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    hidden: int,
    ffn: int,
    vocab: int,
    architecture: str = "LlamaForCausalLM",
) -> ModelConfig:
    """Sizes of a model; its output head is its own, or random weights would repeat one token."""
    return ModelConfig(
        num_layers=layers,
        num_qo_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        hidden_size=hidden,
        vocab_size=vocab,
        intermediate_size=ffn,
        rms_norm_eps=1e-6,
        rotary_config=RotaryConfig(head_dim, head_dim, 8192, 1e6, None),
        hidden_act="silu",
        tie_word_embeddings=False,
        model_type=name,
        architectures=(architecture,),
    )


QWEN3 = shape("Qwen3-0.6B", 28, 16, 8, 128, 1024, 3072, 151936, "Qwen3ForCausalLM")
SMOLLM2 = shape("SmolLM2-135M", 30, 9, 3, 64, 576, 1536, 49152)
TOY = shape("toy", 1, 4, 2, 16, 32, 32, 300, "Qwen3ForCausalLM")


@dataclass(frozen=True)
class Plan:
    """Sizes of everything. ``repeats``: timed runs, of which the median counts."""

    device: torch.device
    models: tuple[ModelConfig, ...]
    page_sizes: tuple[int, ...]
    copy_bytes: int
    store_rows: int
    decode_batch: int
    decode_context: int
    requests: int
    new_tokens: int
    repeats: int

    @property
    def is_dry(self) -> bool:
        return self.device.type != "cuda"


def full_plan() -> Plan:
    device = torch.device("cuda", torch.cuda.current_device())
    return Plan(
        device=device,
        models=(QWEN3, SMOLLM2),
        page_sizes=(1, 3, 16, 256),
        copy_bytes=1 << 30,
        store_rows=1 << 16,
        decode_batch=64,
        decode_context=8192,
        requests=64,
        new_tokens=48,
        repeats=20,
    )


def dry_plan() -> Plan:
    """The same code at sizes for which Triton's interpreter is fast enough."""
    return Plan(
        device=torch.device("cpu"),
        models=(TOY,),
        page_sizes=(16,),
        copy_bytes=1 << 12,
        store_rows=70,
        decode_batch=2,
        decode_context=20,
        requests=2,
        new_tokens=2,
        repeats=1,
    )


def seconds(plan: Plan, run: Callable[[], object]) -> float:
    """Median time of ``run`` on the device, after one run that compiles and warms up."""
    run()
    times = []
    for _ in range(plan.repeats):
        if plan.is_dry:
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
            continue
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return median(times)
