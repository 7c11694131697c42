"""Random streams of requests over tiny pools, drawn from a seed alone."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

PAGE_SIZES = (1, 2, 4, 16)
VOCAB = 6
STOP = 5


@dataclass
class Stream:
    """What comes in at the beginning of each turn, and the world that it comes to."""

    seed: int
    page_size: int
    num_pages: int
    loop: str
    cache: str
    rows: int
    budget: int
    graph_bs: tuple[int, ...]
    eos: int | tuple[int, ...]
    arrivals: list[tuple[int, int, list[int], int, bool]] = field(default_factory=list)
    """(turn, uid, prompt, max_tokens, ignore_eos), by turn."""
    aborts: list[tuple[int, int]] = field(default_factory=list)
    """(turn, uid)"""

    @property
    def last_turn(self) -> int:
        return max([arrival[0] for arrival in self.arrivals] + [turn for turn, _ in self.aborts])


def draw(seed: int, *, aborts: bool = False, loop: str | None = None) -> Stream:
    """Prompts over a few shared beginnings; a pool of a few requests' size; both caches and loops,
    the overlapped one on a device that runs at once and on one that runs late.

    With ``aborts``, up to five of them, at any turn, also of requests that are gone.
    """
    rng = random.Random(seed)
    page_size = rng.choice(PAGE_SIZES)
    slots = rng.choice([8, 12, 16, 24, 32, 48, 64, 128])
    num_pages = max(2, -(-slots // page_size))
    stream = Stream(
        seed=seed,
        page_size=page_size,
        num_pages=num_pages,
        loop=loop or rng.choice(["normal", "overlap", "late"]),
        cache=rng.choice(["radix", "radix", "radix", "naive"]),
        rows=rng.choice([1, 2, 3, 4, 8]),
        budget=rng.choice([2, 3, 5, 8, 8192, 8192]),
        graph_bs=rng.choice([(), (), (2, 4), (1, 2, 4, 8)]),
        eos=rng.choice([STOP, STOP, ()]),
    )
    room = num_pages * page_size
    longest = rng.choice([room, min(room, 4 * page_size), min(room, 10)])
    stems = [[rng.randrange(STOP) for _ in range(rng.randint(1, longest))] for _ in range(3)]
    spread = rng.choice([1, 4, 12, 24])
    for uid in range(rng.randint(3, 16)):
        stem = rng.choice(stems)
        tail = [rng.randrange(STOP) for _ in range(rng.choice([0, 0, 1, 1, 2, 5]))]
        prompt = (stem[: rng.randint(0, len(stem))] + tail or [0])[: room - 1]
        turn, outputs = rng.randrange(spread), rng.choice([1, 1, 2, 3, 5, 8])
        stream.arrivals.append((turn, uid, prompt, outputs, rng.random() < 0.1))
    stream.arrivals.sort(key=lambda arrival: arrival[0])
    if aborts:
        for _ in range(rng.randint(1, 5)):
            turn, uid = rng.randrange(spread + 8), rng.randrange(len(stream.arrivals) + 1)
            stream.aborts.append((turn, uid))
    return stream


def script_of(stream: Stream) -> Callable[[Any, int], int]:
    """The same tokens on every side, whatever is read: by request and place alone."""

    def script(req: Any, device_len: int) -> int:
        return zlib.crc32(f"{stream.seed} {req.uid} {device_len}".encode()) % VOCAB

    return script
