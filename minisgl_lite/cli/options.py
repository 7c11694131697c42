"""The options of ``minisgl-lite generate``."""

from __future__ import annotations

import argparse
from pathlib import Path

from minisgl_lite.kvcache import SUPPORTED_CACHE_MANAGER

_DTYPES = ("float32", "bfloat16", "float16")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all of them; values are judged by who uses them, not here."""
    parser.add_argument("prompts", nargs="+", metavar="PROMPT")
    _add_model_options(parser)
    _add_sampling_options(parser)
    _add_cache_options(parser)


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("model").add_argument
    add("--model", default="smollm2", help="smollm2, tiny[:SEED], a .gguf file or a folder")
    add("--allow-download", action="store_true", help="fetch --model OWNER/NAME from the hub")
    add("--dtype", default="float32", choices=_DTYPES)
    add("--device", help="cpu or cuda (cuda where there is one)")
    add("--backend", default="auto", help="attention backend (auto)")


def _add_sampling_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("text").add_argument
    add("--max-tokens", type=int, default=128, metavar="N", help="longest answer (128)")
    add("--chat", action=argparse.BooleanOptionalAction, help="put prompts into the chat template")
    add("--raw", dest="chat", action="store_false", help="take prompts as they are")
    add("--ids", action="store_true", help="prompts are token ids: '1,4093,198'")
    add("--temperature", type=float, default=0.0, metavar="T", help="0, the default, is greedy")
    add("--top-k", type=int, default=-1, metavar="K", help="keep the K likeliest tokens")
    add("--top-p", type=float, default=1.0, metavar="P", help="keep tokens up to probability P")
    add("--seed", type=int, metavar="S", help="for a temperature above 0")
    add("--ignore-eos", action="store_true", help="go on to --max-tokens")


def _add_cache_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("KV cache").add_argument
    caches = SUPPORTED_CACHE_MANAGER.supported_names()
    add("--page-size", type=int, default=16, metavar="P", help="tokens per page (16)")
    add("--num-pages", type=int, metavar="N", help="pages of the pool (8192 tokens on a CPU)")
    add("--cache", default="radix", metavar="|".join(caches), help="prefix cache (radix)")
    add("--prefill-budget", type=int, default=8192, metavar="N", help="prompt tokens per step")
    add("--overlap", action="store_true", help="prepare a step while another runs")
    add("--check", action="store_true", help="watch every slot with the KV sanitizer")
    add("--trace", type=Path, metavar="FILE", help="record the run into FILE (.json or .json.gz)")
