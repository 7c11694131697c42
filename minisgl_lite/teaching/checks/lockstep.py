"""Two toys side by side, one with a part of the learner's in it; says what differs first.

Both get the same requests and say the same words, so they must have the same state after every
step. The learner's toy runs under the KV sanitizer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...hooks import HookError, Listener
from ...scheduler import ForwardInput, Managers
from ...toy import Toy
from ...trace import KVSanitizer, Recorder, Trace, TraceError
from .learner import Gone, NotDone, Wrong

MAX_TURNS = 200


@dataclass
class Arrival:
    """A request: when it comes, what it asks and says, and when it is cancelled, if it is."""

    turn: int
    prompt: list[int]
    says: list[int]
    abort: int | None = None


@dataclass
class Stream:
    """Requests for a pool."""

    page_size: int
    num_pages: int
    cache_type: str = "radix"
    max_extend_tokens: int = 8192
    arrivals: list[Arrival] = field(default_factory=list)

    def toy(self, managers: Managers | None = None) -> Toy:
        return Toy(
            page_size=self.page_size,
            num_pages=self.num_pages,
            cache_type=self.cache_type,
            max_extend_tokens=self.max_extend_tokens,
            managers=managers or Managers(),
        )


def random_stream(
    rng: random.Random,
    *,
    page_size: int | None = None,
    cache_type: str | None = None,
    requests: int = 8,
    aborts: bool = False,
    chunks: bool = False,
) -> Stream:
    """Requests with shared beginnings, in a pool that is short of pages."""
    size = page_size or rng.choice([1, 2, 4])
    stems = [[rng.randrange(1, 40) for _ in range(rng.randrange(2, 3 * size + 3))] for _ in "ab"]
    arrivals = []
    for _ in range(requests):
        stem = rng.choice(stems) if rng.random() < 0.7 else []
        prompt = stem + [rng.randrange(1, 40) for _ in range(rng.randrange(1, 2 * size + 2))]
        says = [rng.randrange(1, 40) for _ in range(rng.randrange(1, 6))]
        turn = rng.randrange(0, 3 * requests)
        abort = turn + rng.randrange(1, 5) if aborts and rng.random() < 0.3 else None
        arrivals.append(Arrival(turn, prompt, says, abort))
    longest = max(len(a.prompt) + len(a.says) for a in arrivals)
    pages = -(-longest // size) + rng.randrange(1, 4)
    return Stream(
        size,
        pages,
        cache_type or rng.choice(["radix", "radix", "naive"]),
        rng.choice([3, 5]) if chunks else 8192,
        sorted(arrivals, key=lambda arrival: arrival.turn),
    )


class _Seen(Listener):
    """What the last step prepared."""

    def __init__(self, toy: Toy) -> None:
        self.out_loc: list[int] = []
        toy.hooks.attach(self)

    def on_prepare(self, forward_input: ForwardInput) -> None:
        self.out_loc = forward_input.batch.out_loc.tolist()


def compare(
    stream: Stream,
    managers: Managers,
    *,
    beside: Managers | None = None,
    put_in: Callable[[Toy], None] | None = None,
    misconception: str | None = None,
) -> None:
    """Run ``stream`` with the package's own managers and with ``managers``, step by step.

    ``beside``: other managers to compare with, where the task is not quite what the package does.
    ``put_in`` changes the learner's toy before it runs, where a manager class is not enough.

    Raises:
        Wrong: the first difference, or what the sanitizer found; NotDone, Gone as they come.
    """
    ours, theirs = stream.toy(beside), stream.toy(managers)
    if put_in is not None:
        put_in(theirs)
    seen = _Seen(ours), _Seen(theirs)
    with KVSanitizer(theirs):
        for turn in range(MAX_TURNS):
            for uid, arrival in enumerate(stream.arrivals, start=1):
                for toy in (ours, theirs):
                    if arrival.turn == turn:
                        toy.add(arrival.prompt, arrival.says, uid=uid)
                    elif arrival.abort == turn:
                        toy.abort(uid)
            ours.step()
            _their_step(theirs, turn + 1, misconception)
            difference = first_difference(ours, theirs, seen[0].out_loc, seen[1].out_loc)
            if difference is not None:
                raise Wrong(f"after step {turn + 1} {difference}", misconception)
            if not ours.has_work and all(a.turn < turn for a in stream.arrivals):
                return


def _their_step(toy: Toy, turn: int, misconception: str | None) -> None:
    try:
        toy.step()
    except (Wrong, NotDone, Gone):
        raise
    except HookError as error:
        cause = error.__cause__
        if isinstance(cause, Wrong | NotDone | Gone):
            raise cause from None
        raise Wrong(f"the KV sanitizer stops it: {error}", misconception) from None
    except Exception as error:
        raise Wrong(
            f"step {turn} fails in the engine: {type(error).__name__}: {error}", misconception
        ) from None


HITS = (
    (1, "the cat sat on the mat", "and slept well"),
    (1, "a dog ran", "to the door and out"),
    (4, "the cat sat on my hat all the morning", "long today"),
)
"""Turn, prompt and answer: two requests run together, a third has the first one's beginning."""

TWINS = (
    (1, "the cat sat on the mat", "and slept well"),
    (1, "the cat sat on the roof", "and looked at the moon"),
    (3, "a dog ran to the door of the house", "and out"),
)
"""Two requests begin alike and are computed in one batch; a third takes what one returns."""


def play(
    managers: Managers = Managers(),  # noqa: B008 - an immutable tuple of classes
    *,
    put_in: Callable[[Toy], None] | None = None,
    requests: Sequence[tuple[int, str, str]] = HITS,
    num_pages: int = 7,
) -> tuple[Trace, str | None]:
    """A short run with a part of the learner's in it, and what stopped it, if anything did.

    A page has four tokens.

    Raises:
        NotDone, Gone: as they come.
    """
    toy = Toy(page_size=4, num_pages=num_pages, managers=managers)
    if put_in is not None:
        put_in(toy)
    text = None
    sanitizer = KVSanitizer(toy)
    with Recorder(toy, sanitizer=sanitizer) as recorder, sanitizer:
        try:
            for turn in range(1, MAX_TURNS):
                for arrival, prompt, says in requests:
                    if arrival == turn:
                        toy.add(prompt, says)
                if not (toy.has_work or turn <= requests[-1][0]):
                    break
                _their_step(toy, turn, None)
        except Wrong as wrong:
            text = str(wrong)
    return _as_far_as_it_can_be_shown(recorder.trace()), text


def _as_far_as_it_can_be_shown(trace: Trace) -> Trace:
    """Without the last frames, where these speak of slots that the pool does not have."""
    for count in range(len(trace.frames), 0, -1):
        part = Trace(trace.meta, trace.frames[:count], trace.vocab)
        try:
            return Trace.from_dict(part.to_dict())
        except TraceError:
            continue
    return Trace(trace.meta, [], trace.vocab)


def first_difference(
    ours: Toy, theirs: Toy, our_out_loc: list[int], their_out_loc: list[int]
) -> str | None:
    """What differs between the two states, in the book's words; None if nothing does."""
    rows = {req.uid: req for req in theirs.live_reqs()}
    for req in ours.live_reqs():
        other = rows.get(req.uid)
        if other is None:
            return f"request {req.uid} is not running any more, and should be"
        mine = ours.engine.page_table[req.table_idx, : req.device_len - 1].tolist()
        his = theirs.engine.page_table[other.table_idx, : req.device_len - 1].tolist()
        for position, (right, found) in enumerate(zip(mine, his, strict=True)):
            if right != found:
                return (
                    f"request {req.uid}'s row holds slot {found} at position {position};"
                    f" it should hold {right}"
                )
    if our_out_loc != their_out_loc:
        return f"out_loc is {their_out_loc}; it should be {our_out_loc}"
    return _queue_difference(ours, theirs)


def _queue_difference(ours: Toy, theirs: Toy) -> str | None:
    right, found = (toy.cache_manager.free_slots.tolist() for toy in (ours, theirs))
    if right == found:
        return None
    size = ours.cache_manager.page_size
    for start in found:
        if start not in right:
            return f"page {start // size} is free{_still_used(theirs, start)}"
    for start in right:
        if start not in found:
            return f"page {start // size} is not free again, and nobody holds it"
    for start in found:
        if found.count(start) > 1:
            return f"page {start // size} stands in free_slots {found.count(start)} times"
    return f"free_slots is {found}; it should be {right}: the same pages, in another order"


def _still_used(toy: Any, start: int) -> str:
    """Who else holds a page that is free, to end the sentence with."""
    size = toy.cache_manager.page_size
    for req in toy.live_reqs():
        row = toy.engine.page_table[req.table_idx, : req.device_len - 1].tolist()
        for position, slot in enumerate(row):
            if start <= slot < start + size:
                return f" and still in request {req.uid}'s row, position {position}"
    return ", though the prefix cache or a running request should still hold it"


__all__ = ["TWINS", "Arrival", "Stream", "compare", "first_difference", "play", "random_stream"]
