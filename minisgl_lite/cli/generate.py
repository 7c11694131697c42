"""``minisgl-lite generate``: prompts in, streamed text and a line of counts out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator
from contextlib import ExitStack, closing
from typing import Any

import torch

from minisgl_lite.core import SamplingParams
from minisgl_lite.distributed import DistributedInfo, destroy_distributed, init_from_env
from minisgl_lite.llm import LLM, TokenEvent
from minisgl_lite.models import Tokenizer

from .counts import Counts
from .files import check_place
from .options import add_options
from .printer import Printer


def add_parser(commands: Any) -> None:
    """Add the subcommand to argparse's ``commands``."""
    parser = commands.add_parser(
        "generate",
        help="answer prompts",
        description="Answer prompts, all in one batch. Ends with a line of counts.",
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Generate, print, return the exit code."""
    params = _sampling_params(args)
    if args.trace is not None:
        check_place("--trace", args.trace)
    ranks = init_from_env(args.device)
    if ranks.size > 1 and params.seed is None:
        params.seed = 0  # NOTE: all ranks must draw the same tokens
    out = sys.stdout if ranks.is_primary() else None
    with ExitStack() as stack:
        if ranks.size > 1:
            stack.callback(destroy_distributed)
        llm = stack.enter_context(_open_llm(args, ranks))
        recorder = _attach_watchers(args, llm) if ranks.is_primary() else None
        if recorder is not None:  # also after Ctrl-C or a fault: what was recorded so far
            stack.callback(lambda: recorder.trace().save(args.trace))
        counts = stack.enter_context(Counts(llm))
        tokenizer = _tokenizer(args, llm)
        printer = Printer(args.prompts, tokenizer, out)
        with closing(_stream(args, llm, tokenizer, params)) as events:
            for event in events:
                counts.tokens += event.token >= 0 and event.reason != "stop"
                printer.show(event)
        if printer.failures < len(args.prompts):
            printer.line(counts.line())
    return printer.finish(f"minisgl-lite {args.command}")


def _sampling_params(args: argparse.Namespace) -> SamplingParams:
    params = SamplingParams(
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        ignore_eos=args.ignore_eos,
        max_tokens=args.max_tokens,
        seed=args.seed,
    )
    params.validate()
    return params


def _open_llm(args: argparse.Namespace, ranks: DistributedInfo) -> LLM:
    return LLM(
        args.model,
        getattr(torch, args.dtype),
        page_size=args.page_size,
        num_pages=args.num_pages,
        cache_type=args.cache,
        overlap=args.overlap,
        max_extend_tokens=args.prefill_budget,
        attention_backend=args.backend,
        allow_download=args.allow_download,
        device=args.device,
        tp_info=ranks,
    )


def _attach_watchers(args: argparse.Namespace, llm: LLM) -> Any:
    """The recorder that --trace asks for, or None; the sanitizer for --check."""
    from minisgl_lite.trace import KVSanitizer, Recorder

    sanitizer = KVSanitizer(llm) if args.check else None
    return Recorder(llm, sanitizer=sanitizer) if args.trace is not None else None


def _tokenizer(args: argparse.Namespace, llm: LLM) -> Tokenizer | None:
    """The model's; None where it has none and none is needed, as with --ids."""
    try:
        return llm.tokenizer
    except (ValueError, ImportError):
        if not args.ids:
            raise
        return None


def _stream(
    args: argparse.Namespace, llm: LLM, tokenizer: Tokenizer | None, params: SamplingParams
) -> Generator[TokenEvent, None, None]:
    """The events of all prompts; one that can't be encoded has its error and stops no other."""
    encoded: dict[int, list[int]] = {}
    for number, prompt in enumerate(args.prompts):
        try:
            encoded[number] = _encode(prompt, tokenizer, args)
        except ValueError as error:
            yield TokenEvent(number, -1, f"error: {error}")
    numbers = list(encoded)
    for event in llm.stream(list(encoded.values()), params):
        yield event._replace(prompt=numbers[event.prompt])


def _encode(prompt: str, tokenizer: Tokenizer | None, args: argparse.Namespace) -> list[int]:
    """An empty prompt stays empty, so that the engine refuses it, also in a chat template."""
    if args.ids or tokenizer is None:
        return _parse_ids(prompt)
    chat = tokenizer.chat_template is not None if args.chat is None else args.chat
    if not chat or not prompt:
        return tokenizer.encode(prompt)
    text = tokenizer.apply_chat_template([{"role": "user", "content": prompt}])
    return tokenizer.encode(text, add_special_tokens=False)


def _parse_ids(prompt: str) -> list[int]:
    words = prompt.replace(",", " ").split()
    try:
        return [int(word) for word in words]
    except ValueError:
        raise ValueError(f"--ids: {prompt!r} is no list of token ids such as '1,4093'.") from None
