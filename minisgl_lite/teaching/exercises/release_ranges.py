"""From four lengths to the ranges of a release."""

from __future__ import annotations

import random
from typing import Any

from ...core import Req
from ...hooks import Release
from ...scheduler import CacheManager, Managers
from ...utils import align_down, div_ceil
from ..checks.exercise import Exercise, add
from ..checks.learner import Learner, Wrong, brief
from ..checks.lockstep import TWINS, Arrival, Stream, compare, play, random_stream

RANGES = ("matched", "duplicate", "registered", "tail")
KEYS = (*RANGES, "free", "repoint")
TAG = "m08"


def _check(learner: Learner, rng: random.Random) -> None:
    managers = Managers(cache=_manager(learner))
    compare(_two_equal_prompts(), managers, misconception=TAG)
    for page_size in (1, 2, 4, rng.choice([3, 5, 8])):
        for matched, more, new, rest in _edges(rng, page_size):
            known = matched + more
            computed = known + new + rest
            for finished in (False, True):
                if computed > 0:
                    _compare_one(learner, matched, known, computed, page_size, finished)
    for aborts in (False, False, True):
        stream = random_stream(rng, cache_type="radix", aborts=aborts)
        compare(stream, managers, misconception=TAG)


def _two_equal_prompts() -> Stream:
    """P = 4: the second of two equal prompts lives on, a third needs what went back."""
    prompt = list(range(1, 10))
    arrivals = [Arrival(0, prompt, [1]), Arrival(0, prompt, [1, 2, 3])]
    return Stream(4, 8, arrivals=[*arrivals, Arrival(1, list(range(20, 33)), [1])])


def _edges(rng: random.Random, size: int) -> list[tuple[int, int, int, int]]:
    """Lengths of the four ranges: each empty and not, one page and more."""
    pages = (0, size, 2 * size)
    tails = (0, 1, size - 1)
    made = {(a, b, c, d) for a in pages for b in pages for c in pages for d in tails if d < size}
    return rng.sample(sorted(made), 20)


def _compare_one(
    learner: Learner, matched: int, known: int, computed: int, page_size: int, finished: bool
) -> None:
    args = (matched, known, computed, page_size, finished)
    right, found = _right(*args), _asked(learner, *args)
    for key in KEYS:
        if found[key] != right[key]:
            raise Wrong(
                f"release_ranges{args}: {key} is {brief(found[key])};"
                f" it should be {brief(right[key])}",
                TAG,
            )


def _right(
    matched: int, known: int, computed: int, page_size: int, finished: bool
) -> dict[str, Any]:
    whole = align_down(computed, page_size)
    end = div_ceil(computed, page_size) * page_size
    free = list(range(matched, known, page_size))
    if finished:
        free += range(whole, end, page_size)
    return {
        "matched": (0, matched),
        "duplicate": (matched, known),
        "registered": (known, whole),
        "tail": (whole, end),
        "free": free,
        "repoint": None if finished or known == matched else (matched, known),
    }


def _asked(
    learner: Learner, matched: int, known: int, computed: int, page_size: int, finished: bool
) -> dict[str, Any]:
    """The learner's answer, with pairs as tuples, if it has the right form."""
    called = f"release_ranges({matched}, {known}, {computed}, {page_size}, {finished})"
    value = learner(matched, known, computed, page_size, finished)
    if not isinstance(value, dict) or set(value) != set(KEYS):
        what = "None (is a return missing?)" if value is None else brief(value)
        raise Wrong(f"{called} returned {what}; a dict with the keys {', '.join(KEYS)} is wanted")
    end = div_ceil(computed, page_size) * page_size
    for key in (*RANGES, "repoint"):
        if key == "repoint" and value[key] is None:
            continue
        pair = value[key]
        if not isinstance(pair, tuple | list) or [type(x) for x in pair] != [int, int]:
            raise Wrong(f"{called}: {key} is {brief(pair)}; a pair (start, end) is wanted")
        value[key] = tuple(pair)
    free = value["free"]
    if not isinstance(free, list) or any(type(x) is not int for x in free):
        raise Wrong(f"{called}: free is {brief(free)}; a list of positions is wanted")
    for position in (*free, *(value["repoint"] or ())):
        if not 0 <= position <= end or (position in free and position == end):
            raise Wrong(f"{called}: the request has pages for [0, {end}), not for {position}")
    return value


def _manager(learner: Learner) -> type[CacheManager]:
    class WithYours(CacheManager):
        def cache_req(self, req: Req, *, finished: bool) -> None:
            old = req.cache_handle
            row = self.page_table[req.table_idx]
            end = div_ceil(req.cached_len, self.page_size) * self.page_size
            slots = row[:end].clone()
            known, new = self.prefix_cache.insert_prefix(
                req.input_ids[: req.cached_len], slots[: req.cached_len]
            )
            yours = _asked(learner, old.cached_len, known, req.cached_len, self.page_size, finished)
            self.unlock(old)
            if not finished:
                self.lock(new)
                req.cache_handle = new
            if yours["repoint"] is not None:
                start, stop = yours["repoint"]
                cached = new.get_matched_indices()
                stop = min(stop, len(cached))
                row[start:stop] = cached[start:stop]
            self._tell(req, finished, old.cached_len, known, new, slots.tolist())
            for position in yours["free"]:
                self._free(slots[position : position + 1])

        def _tell(
            self, req: Req, finished: bool, old: int, known: int, new: Any, slots: list[int]
        ) -> None:
            """The sanitizer hears what is in the tree from now on, whatever the answer says."""
            new_len, end = new.cached_len, len(slots)
            release = Release(req, finished, old, known, new_len, end, slots, None, new)
            self.hooks.emit("on_release", release)

    return WithYours


add(
    Exercise(
        name="release-ranges",
        kind="build",
        answer="release_ranges",
        objective="split a request's positions at its release, and say which pages go back",
        difficulty=2,
        minutes=30,
        points=6,
        page="reuse-and-release",
        misconceptions=("m08", "m09"),
        counterparts=("minisgl_lite.scheduler.cache:CacheManager.cache_req",),
        hints=(
            "Draw a line from 0 to the end of the last page and mark matched, known and the end of"
            " the last whole page on it. The four ranges lie between the marks; some are empty.",
            "What fills no whole page can't enter the tree. So registered ends where computed is"
            " rounded down to whole pages, and tail ends where it is rounded up.",
            "Duplicates go back in both cases. A request that lives on needs its tail, and needs"
            " to find the cached copy of its duplicates; one that has ended needs neither.",
        ),
        check=_check,
        scene=lambda learner: play(Managers(cache=_manager(learner)), requests=TWINS),
    )
)
