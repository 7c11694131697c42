"""A run without locks: whose page was taken, when, and how admission keeps it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ...kvcache import BaseCacheHandle, RadixCacheHandle
from ...scheduler import Managers, PendingReq, PrefillAdder, PrefillManager
from ...toy import Toy
from ...trace import KVSanitizer, Recorder, Trace
from ..checks.exercise import Exercise, Template, add
from ..checks.learner import Learner, Wrong, brief
from ..checks.lockstep import compare, random_stream

TAG = "m07"
FUNCTION = "admission"
WORDS = ("lock", "unlock", "admit", "refuse")


# ---- the run ------------------------------------------------------------------------------------


def _without_locks(numbers: dict[str, Any]) -> Toy:
    """A toy whose locks do nothing."""
    toy = Toy(page_size=numbers["page_size"], num_pages=numbers["num_pages"])

    def lock_handle(handle: BaseCacheHandle, unlock: bool = False) -> None:
        pass

    toy.cache_manager.prefix_cache.lock_handle = lock_handle  # type: ignore[method-assign]
    return toy


def _play(toy: Toy, numbers: dict[str, Any], turns: int) -> None:
    stem = list(range(1, numbers["stem"] + 1))
    for turn in range(1, turns + 1):
        for uid, (arrival, shares, length, output) in enumerate(numbers["requests"], start=1):
            if arrival == turn:
                own = [50 * uid + i for i in range(length)]
                toy.add((stem if shares else []) + own, says=[1] * output, uid=uid)
        toy.step()


def _faults(numbers: dict[str, Any]) -> list[Any]:
    toy = _without_locks(numbers)
    with KVSanitizer(toy, stop=False) as sanitizer:
        _play(toy, numbers, numbers["turns"])
    return sanitizer.faults


def _draw(rng: random.Random) -> dict[str, Any]:
    while True:
        page_size = rng.choice([2, 3, 4])
        second = rng.randrange(3, 6)
        numbers = {
            "page_size": page_size,
            "num_pages": rng.randrange(7, 11),
            "stem": page_size * rng.randrange(1, 3),
            # turn of arrival, whether it begins with the stem, tokens of its own, tokens it says
            "requests": [
                (1, True, rng.randrange(1, page_size + 2), rng.randrange(1, 3)),
                (second, True, rng.randrange(1, page_size + 2), rng.randrange(4, 8)),
                (second, False, rng.randrange(2, 2 * page_size), rng.randrange(1, 4)),
                (second + rng.randrange(1, 4), False, rng.randrange(6, 16), rng.randrange(2, 4)),
            ],
            "turns": second + 5,
        }
        try:
            faults = _faults(numbers)
        except Exception:
            continue  # without locks a run may break down; this one is no exercise
        stolen = [fault.turn for fault in faults if fault.kind == "evicted-in-use"]
        read = [fault.turn for fault in faults if fault.kind == "stale-read"]
        # One page, and its reader goes on reading it.
        if len(stolen) == 1 and max(read, default=0) > stolen[0]:
            return numbers


def _solve(numbers: dict[str, Any]) -> dict[str, int]:
    (fault,) = (fault for fault in _faults(numbers) if fault.kind == "evicted-in-use")
    return {"step": fault.turn, "slot": fault.slot}


def _run(numbers: dict[str, Any]) -> Trace:
    toy = _without_locks(numbers)
    with Recorder(toy) as recorder:
        _play(toy, numbers, numbers["turns"])
    return recorder.trace()


def _text(numbers: dict[str, Any]) -> str:
    return """## The stolen page

*About 30 minutes, 5 points. It needs [prefill](../book/prefill-admission.ipynb).*

Somebody has emptied the locks: whoever matches or registers pages goes on without protecting them.
The cell below shows a run of such an engine, with {num_pages} pages of {page_size} tokens and
{count} requests. In one of its steps, a page is taken from a request that still reads it: the page
is evicted while it stands in that request's row.

First name the step, and the slot with which that page begins, in place of `None`:
`dict(step=…, slot=…)`.

Then put the first lock back, which belongs into admission. This is what decides there now:

```python
def admission(need, reserved, available, hit):
    if need + reserved > available:
        return ["refuse"]
    return ["admit"]
```

All four are numbers of tokens. `need` is what the request will ask for beyond its match,
`reserved` what was promised to others, `available` what can be had now: free pages, and all that
eviction would give. `hit` is the part of the match that nobody has locked so far; it counts as
available, until it is locked. Return what is to be done, in order: a list of `"lock"` and
`"unlock"`, each of the match, and at its end `"admit"` or `"refuse"`. The engine will admit its
requests by your function.
""".format(
        num_pages=numbers["num_pages"],
        page_size=numbers["page_size"],
        count=len(numbers["requests"]),
    )


# ---- the mended function ------------------------------------------------------------------------


def _check(learner: Learner, rng: random.Random) -> None:
    yours = Learner(learner.link, FUNCTION)
    edges = [(4, 0, 4, 0), (4, 0, 3, 0), (4, 0, 4, 4), (4, 4, 8, 4), (4, 4, 12, 4), (0, 0, 0, 0)]
    edges += [(8, 4, 11, 0), (1, 0, 3, 2), (1, 0, 2, 2), (5, 3, 8, 0), (5, 3, 9, 1), (5, 3, 8, 1)]
    for _ in range(40):
        need, reserved, hit = (rng.randrange(9) for _ in range(3))
        edges.append((need, reserved, hit + rng.randrange(20), hit))
    for edge in edges:
        _compare_one(yours, *edge)
    yours.repeat_first_calls()
    for chunks in (False, False, True, False):
        stream = random_stream(rng, cache_type="radix", chunks=chunks)
        compare(stream, Managers(prefill=_manager(yours)), misconception=TAG)


def _compare_one(yours: Learner, need: int, reserved: int, available: int, hit: int) -> None:
    words, locks = _asked(yours, need, reserved, available, hit)
    called = f"{FUNCTION}({need}, {reserved}, {available}, {hit}) returned {words}:"
    admitted = words[-1] == "admit"
    fits = need + reserved <= available - hit
    if admitted and locks == 0:
        raise Wrong(f"{called} it is admitted, and its match may be evicted at any time", TAG)
    if not admitted and locks > 0:
        raise Wrong(f"{called} it is refused, and nobody will ever take this lock off", TAG)
    if locks > 1:
        raise Wrong(f"{called} one lock is taken off at its release; {locks - 1} would stay", TAG)
    if admitted and not fits:
        left = available - hit
        raise Wrong(f"{called} {need + reserved} tokens are promised then, of {left}", TAG)
    if not admitted and fits:
        raise Wrong(f"{called} there is room for it, under its lock, too", TAG)


def _asked(
    yours: Learner, need: int, reserved: int, available: int, hit: int
) -> tuple[list[str], int]:
    """The learner's list and how many locks it leaves on the match."""
    called = f"{FUNCTION}({need}, {reserved}, {available}, {hit})"
    words = yours(need, reserved, available, hit)
    if not isinstance(words, list) or any(word not in WORDS for word in words):
        what = "None (is a return missing?)" if words is None else brief(words)
        raise Wrong(f"{called} returned {what}; a list of {', '.join(WORDS)} is wanted")
    if not words or sum(word in ("admit", "refuse") for word in words) != 1:
        raise Wrong(f"{called} returned {words}; it says either admit or refuse, once")
    if words[-1] not in ("admit", "refuse"):
        raise Wrong(f"{called} returned {words}; admit or refuse comes last")
    locks = 0
    for word in words:
        locks += {"lock": 1, "unlock": -1}.get(word, 0)
        if locks < 0:
            raise Wrong(f"{called} returned {words}; it unlocks what it has not locked", TAG)
    return words, locks


def _manager(yours: Learner) -> type[PrefillManager]:
    class YourAdder(PrefillAdder):
        def _try_allocate_one(self, req: PendingReq) -> tuple[BaseCacheHandle, int] | None:
            if self.table_manager.available_size == 0:
                return None
            manager = self.cache_manager
            handle = manager.match_req(req).cuda_handle
            need = self._needed_size(req, handle.cached_len)
            words, _ = _asked(
                yours, need, self.reserved_size, manager.available_size, _unlocked(handle)
            )
            _carry_out(words, manager, handle)
            if words[-1] == "refuse":
                return None
            row = self.table_manager.allocate()
            if handle.cached_len > 0:
                matched = handle.get_matched_indices()
                self.table_manager.page_table[row, : handle.cached_len] = matched
                self.table_manager.write_tokens(row, 0, req.input_ids[: handle.cached_len])
            return handle, row

    class WithYours(PrefillManager):
        Adder = YourAdder

    return WithYours


def _carry_out(words: Sequence[str], manager: Any, handle: BaseCacheHandle) -> None:
    for word in words:
        if word == "lock":
            manager.lock(handle)
        elif word == "unlock":
            manager.unlock(handle)


def _unlocked(handle: BaseCacheHandle) -> int:
    """Tokens of the match that a lock would make unavailable."""
    assert isinstance(handle, RadixCacheHandle)
    node, tokens = handle.node, 0
    while not node.is_root():
        tokens += node.length if node.ref_count == 0 else 0
        node = node.parent
    return tokens


add(
    Exercise(
        name="find-stolen-page",
        kind="find",
        answer="stolen",
        objective="find the step in which an unlocked page is taken from its reader, and lock it",
        difficulty=2,
        minutes=30,
        points=5,
        page="prefill-admission",
        misconceptions=("m07",),
        counterparts=("minisgl_lite.scheduler.prefill:PrefillAdder._try_allocate_one",),
        template=Template(_draw, _text, _solve, _run),
        hints=(
            "Go to the steps in which pages are evicted, and look who has these slots in the row"
            " at that moment. Most evicted pages were nobody's any more.",
            "The match must be locked before anything that may evict, so before it is admitted."
            " Under the lock, hit tokens are available no longer: compare once more.",
            "Three ends are possible: there was no room anyway; there is none under the lock, so"
            " the lock must come off again; or there is, and the lock stays.",
        ),
        check=_check,
    )
)
