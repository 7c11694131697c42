"""One run: the real scheduler, turn by turn, with every check after every turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import torch

from minisgl_lite.core import SamplingParams
from minisgl_lite.kvcache.radix_cache import RadixPrefixCache, RadixTreeNode
from minisgl_lite.message import AbortBackendMsg, BackendMsg, DetokenizeMsg, UserMsg
from minisgl_lite.scheduler import Managers, Scheduler, SchedulerConfig

from .device import LAYERS, Cast, Device, Violation
from .naming import EOS, Shape
from .worlds import Abort, Setting, turns_alone


class Kit(NamedTuple):
    """What a run is built from; a planted fault replaces a part."""

    scheduler: type[Scheduler] = Scheduler
    managers: Managers = Managers()
    device: type[Device] = Device


RIGHT = Kit()


class Outcome(NamedTuple):
    """``turns`` until at rest; for each request the turn that showed its last token, or -1."""

    turns: int
    ended: list[int]


class Mailbox:
    """Both ends of the scheduler's messages; notes what was shown to whom, and when it ended."""

    def __init__(self, requests: int, dead: set[int]) -> None:
        self.waiting: deque[BackendMsg] = deque()
        self.dead = dead
        self.shown: list[list[tuple[int, bool, str | None]]] = [[] for _ in range(requests)]
        self.ended = [-1] * requests
        self.cancelled: dict[int, int] = {}
        """By uid: the tokens that were shown before its abort."""
        self.turn = 0

    def cancel(self, uid: int) -> None:
        self.waiting.append(AbortBackendMsg(uid))
        self.cancelled[uid] = len(self.shown[uid])
        self.dead.add(uid)

    def receive_msg(self, blocking: bool) -> list[BackendMsg]:
        messages = list(self.waiting)
        self.waiting.clear()
        return messages

    def send_result(self, reply: Iterable[DetokenizeMsg]) -> None:
        for message in reply:
            shown = (message.next_token, message.finished, message.reason)
            self.shown[message.uid].append(shown)
            if message.finished:
                self.ended[message.uid] = self.turn
                self.dead.add(message.uid)


def make_cast(shapes: tuple[Shape, ...], tokens: list[list[int]]) -> Cast:
    """Number the prefixes of these requests, and say what each must be told."""
    prefixes: dict[tuple[int, int], int] = {}
    contents: list[list[list[int]]] = []
    for own in tokens:
        path: list[int] = []
        for token in own:
            step = (path[-1] if path else 0, token)
            path.append(prefixes.setdefault(step, len(prefixes) + 1))
        contents.append([[content(layer, number) for number in path] for layer in range(LAYERS)])
    messages = [
        UserMsg(uid, torch.tensor(own[: s.prompt], dtype=torch.int32), _params(s.max_tokens))
        for uid, (s, own) in enumerate(zip(shapes, tokens, strict=True))
    ]
    replies = [_replies(s, own) for s, own in zip(shapes, tokens, strict=True)]
    return Cast(tokens, [s.prompt for s in shapes], contents, prefixes, messages, replies)


def content(layer: int, prefix: int) -> int:
    """What a layer's slot holds for a prefix: no two layers hold the same."""
    return prefix * LAYERS + layer


def _replies(shape: Shape, tokens: list[int]) -> list[tuple[int, bool, str | None]]:
    outputs = tokens[shape.prompt :]
    reason = "stop" if shape.stop else "length"
    return [(t, False, None) for t in outputs[:-1]] + [(outputs[-1], True, reason)]


@cache
def _params(max_tokens: int) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens)


@cache
def _config(setting: Setting) -> SchedulerConfig:
    return SchedulerConfig(
        page_size=setting.page_size,
        max_running_req=setting.rows,
        max_extend_tokens=setting.budget,
        cache_type=setting.cache,
        eos_token_id=EOS,
    )


def play(
    setting: Setting,
    shapes: tuple[Shape, ...],
    cast: Cast,
    arrivals: tuple[int, ...],
    abort: Abort | None = None,
    kit: Kit = RIGHT,
) -> Outcome:
    """Run one stream to rest.

    Raises:
        Violation: a wrong read, a slot without exactly one owner, a wrong, missing or late token,
            a turn that does nothing while work waits, an exception, something not given back.
    """
    device = kit.device(
        setting.num_pages(shapes), setting.page_size, setting.rows, cast, late=setting.overlap
    )
    mailbox = Mailbox(len(shapes), device.dead)
    try:
        scheduler = kit.scheduler(_config(setting), device, mailbox, managers=kit.managers)
        turns = _turn_until_rest(scheduler, device, mailbox, setting, shapes, arrivals, abort)
        device.stream.event().synchronize()  # what was issued after the last result
    except Violation:
        raise
    except Exception as error:
        if device.violation is not None:
            raise device.violation from None
        raise Violation("exception", f"{type(error).__name__}: {error}") from error
    check_replies(cast, mailbox)
    check_rest(scheduler, device, setting.rows)
    return Outcome(turns, mailbox.ended)


def _turn_until_rest(
    scheduler: Scheduler,
    device: Device,
    mailbox: Mailbox,
    setting: Setting,
    shapes: tuple[Shape, ...],
    arrivals: tuple[int, ...],
    abort: Abort | None,
) -> int:
    messages = device.cast.messages
    last = max(arrivals[-1], abort.turn if abort else 0)
    # One after the other, each alone, is the longest that a stream may take.
    limit = last + 1 + sum(turns_alone(shape, setting) for shape in shapes)
    data = None
    turn = 0
    while turn <= last or data is not None or scheduler.has_work:
        if turn >= limit:
            device.fail("stall", f"not at rest after {limit} turns")
        for message, arrival in zip(messages, arrivals, strict=True):
            if arrival == turn:
                mailbox.waiting.append(message)
        if abort is not None and abort.turn == turn:
            mailbox.cancel(abort.uid)
        launches, had_data = device.launches, data is not None
        mailbox.turn = turn
        if setting.overlap:
            data = scheduler.overlap_loop(data)
        else:
            scheduler.normal_loop()
        _check_owners(scheduler, device, turn)
        if device.launches == launches and not had_data and scheduler.has_work:
            device.fail("stall", f"turn {turn} does nothing, and no later one will")
        turn += 1
    return turn


def _check_owners(scheduler: Scheduler, device: Device, turn: int) -> None:
    try:
        scheduler.cache_manager.check_integrity(scheduler.live_reqs())
    except RuntimeError as error:
        device.fail("integrity", f"after turn {turn}: {error}")


def check_replies(cast: Cast, mailbox: Mailbox) -> None:
    """Each request was told exactly its tokens; an aborted one what it was told before, no more."""
    for uid, (shown, right) in enumerate(zip(mailbox.shown, cast.replies, strict=True)):
        if uid in mailbox.cancelled:
            before = mailbox.cancelled[uid]
            if late := shown[before:]:
                raise Violation("late token", f"request {uid} is told {late} after its abort")
            right = right[:before]
        if shown != right:
            raise Violation("wrong reply", f"request {uid} is told {shown}, not {right}")


def check_rest(scheduler: Scheduler, device: Device, rows: int) -> None:
    """Nothing is held any more, and what the tree promises is what the pool holds."""
    if held := scheduler.live_reqs() or scheduler.aborted_reqs:
        raise Violation("leak", f"still held at rest: {held}")
    table, cache = scheduler.table_manager, scheduler.cache_manager.prefix_cache
    if sorted(table.allocate() for _ in range(table.available_size)) != list(range(rows)):
        raise Violation("leak", "not every table row came back once")
    if cache.size_info.protected_size:
        raise Violation("leak", f"{cache.size_info.protected_size} tokens stay locked")
    if isinstance(cache, RadixPrefixCache):
        for child in cache.root_node.children.values():
            _check_node(child, 0, device)


def _check_node(node: RadixTreeNode, prefix: int, device: Device) -> None:
    for token, slot in zip(node._key.tolist(), node.value.tolist(), strict=True):
        step = (prefix, token)
        if step not in device.cast.prefixes:
            raise Violation("wrong node", f"node {node.uuid} knows token {token} where none is")
        prefix = device.cast.prefixes[step]
        for layer in range(LAYERS):
            if device.pool[layer][slot] != content(layer, prefix):
                raise Violation(
                    "wrong node",
                    f"node {node.uuid} gives slot {slot} for token {token}; in layer {layer} it"
                    " holds something else",
                )
    for child in node.children.values():
        _check_node(child, prefix, device)
