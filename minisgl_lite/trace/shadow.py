"""The shadow of a pool: for each layer and slot, whose prefix its K/V belong to, and a fingerprint.

K and V of a token depend on the token and on all before it. So the *prefix*, a hash over the ids up
to and including the token, says what a slot has to hold. No other identity (request, position)
matters, which is why prefixes can be shared.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch

from ..text import say

NEVER = 0  # the prefix of a slot that was never written; no chain gives it

_SEED = 0x9E3779B97F4A7C15
_MULTIPLIER = 0xD6E8FEB86659FD93
_MASK = (1 << 64) - 1


def next_hash(before: int, token: int) -> int:
    """The prefix hash after one more token: a signed 64-bit number, never ``NEVER``."""
    mixed = ((before & _MASK) ^ (token + _SEED)) * _MULTIPLIER & _MASK
    mixed = (mixed ^ (mixed >> 32)) * _MULTIPLIER & _MASK
    mixed = mixed ^ (mixed >> 29) or 1
    return mixed - (1 << 64) if mixed >> 63 else mixed


class Chain:
    """One request's token ids and their prefix hashes.

    ``ids`` are the tokens the request has: its prompt, then what was sampled for it. ``fed`` are
    those the model was given before the host knew them, as the overlap loop does.
    """

    def __init__(self, ids: list[int]) -> None:
        self.ids = list(ids)
        self.fed: dict[int, int] = {}
        self._hashes: list[int] = []

    def token(self, position: int) -> int:
        return self.ids[position] if position < len(self.ids) else self.fed[position]

    def hash(self, position: int) -> int:
        """The hash over tokens ``[0, position]``."""
        while len(self._hashes) <= position:
            before = self._hashes[-1] if self._hashes else _SEED
            self._hashes.append(next_hash(before, self.token(len(self._hashes))))
        return self._hashes[position]

    def hashes(self, end: int) -> list[int]:
        """The hashes of positions ``[0, end)``."""
        if end > 0:
            self.hash(end - 1)
        return self._hashes[:end]

    def feed(self, position: int, token: int) -> int | None:
        """The model is given ``token``; returns what the request has there, if that is another."""
        if position < len(self.ids):
            return None if self.ids[position] == token else self.ids[position]
        self.fed[position] = token
        return None

    def learn(self, position: int, token: int) -> int | None:
        """``token`` was sampled for ``position``; returns what was fed instead, if another was."""
        fed = self.fed.pop(position, token)
        if position == len(self.ids):
            self.ids.append(token)
        if fed == token:
            return None
        del self._hashes[position:]
        return fed


@lru_cache(maxsize=8)
def _weights(width: int, device: torch.device) -> torch.Tensor:
    generator = torch.Generator().manual_seed(20071)
    weights = torch.randint(-(2**62), 2**62, (width,), generator=generator, dtype=torch.int64)
    return (weights * 2 + 1).to(device)


def fingerprint(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """One int64 per row of K and V, (n, ...) each: a weighted sum of their bits, mod 2**64."""
    n = k.shape[0]
    rows = torch.cat([k.reshape(n, -1), v.reshape(n, -1)], dim=1)
    whole = rows.shape[1] * rows.element_size() % 8 == 0
    words = rows.view(torch.int64 if whole else torch.uint8)
    return (words * _weights(words.shape[1], words.device)).sum(dim=1)


class Writer(NamedTuple):
    """Who wrote a slot: request, position, turn. uid -1: it was there before the sanitizer."""

    uid: int
    position: int
    turn: int

    def __str__(self) -> str:
        return say(f"sanitizer.writer{'.before' if self.uid < 0 else ''}", **self._asdict())


class Shadow:
    """``prefix``, ``content``: (L, slots) int64; ``writer``: (L, slots, 3) int32."""

    def __init__(self, num_layers: int, num_slots: int, device: torch.device) -> None:
        self.prefix = torch.full((num_layers, num_slots), NEVER, dtype=torch.int64, device=device)
        self.content = torch.zeros_like(self.prefix)
        self.writer = torch.full((num_layers, num_slots, 3), -1, dtype=torch.int32, device=device)

    def record(
        self,
        layer: int,
        slots: torch.Tensor,
        prefix: torch.Tensor,
        content: torch.Tensor | None,
        writer: torch.Tensor,
    ) -> None:
        """These slots, (n,), of the layer were written; ``writer`` is (n, 3)."""
        self.prefix[layer, slots] = prefix
        self.writer[layer, slots] = writer
        if content is not None:
            self.content[layer, slots] = content

    def who(self, layer: int, slot: int) -> Writer | None:
        """Who wrote the slot last; None if nobody did."""
        if int(self.prefix[layer, slot]) == NEVER:
            return None
        return Writer(*self.writer[layer, slot].tolist())

    def find(self, content: int) -> tuple[int, int] | None:
        """The (layer, slot) that was last written with this content."""
        found = ((self.content == content) & (self.prefix != NEVER)).nonzero()
        return None if len(found) == 0 else (int(found[0, 0]), int(found[0, 1]))
