"""A made-up model whose next token depends on what it really reads from its slots.

Each slot holds the whole prefix (a tuple of ids) that a token's K/V would depend on, built, as in a
real model, from what the slot *before* it holds. A request that reads a foreign or stale slot
therefore says something else than it would alone, and `wrong_reads` says where it did.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import torch

from minisgl_lite.engine.scripted import ScriptedEngine

VOCAB = 6
STOP = 5
"""The end-of-sequence id of these worlds."""


def answer(prefixes: Sequence[tuple[int, ...]]) -> int:
    """The next token, from what was read at positions 0, 1, 2 … (order and content count)."""
    return zlib.crc32(repr(tuple(prefixes)).encode()) % VOCAB


def alone(prompt: Sequence[int], max_tokens: int) -> list[int]:
    """What a request says with nobody beside it: no engine, no cache, no pages."""
    ids = tuple(prompt)
    said: list[int] = []
    while len(said) < max_tokens and STOP not in said:
        said.append(answer([ids[: i + 1] for i in range(len(ids))]))
        ids += (said[-1],)
    return said


class ReadingEngine(ScriptedEngine):
    """Runs a step on its own pool of tuples; everything else is the made-up engine's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"vocab_size": VOCAB, **kwargs})
        # one more page than the scheduler manages: the dummy page
        slots = (self.num_pages + 1) * self.ctx.page_size
        self.held: list[tuple[int, ...] | None] = [None] * slots
        self.wrong_reads: list[str] = []

    def _run(self, batch: Any, outputs: Any, next_tokens: torch.Tensor) -> None:
        self._store(batch)  # floats for those who watch the real pool, the sanitizer above all
        tables = [table.tolist() for table in batch.attn_metadata]
        ids, out_loc = batch.input_ids.tolist(), batch.out_loc.tolist()
        assert all(0 <= token < VOCAB for token in ids), f"ids {ids} outside the vocabulary"
        positions = batch.positions.tolist()
        assert len(set(out_loc) - self._dummy_slots()) + out_loc.count(self._dummy_slot()) == len(
            out_loc
        ), f"two tokens of one step go to one slot: {out_loc}"
        at = 0
        for table in tables:
            for position in range(positions[at], len(table)):
                before = self.held[table[position - 1]] if position > 0 else ()
                self.held[out_loc[at]] = (*(before or ()), ids[at])
                assert positions[at] == position
                at += 1
        assert at == len(ids)
        for i, (req, _) in enumerate(outputs):
            read = [self.held[slot] for slot in tables[i]]
            self._check(req, tables[i], read)
            next_tokens[i] = answer([prefix or () for prefix in read])

    def _check(self, req: Any, table: list[int], read: list[tuple[int, ...] | None]) -> None:
        whole = read[-1] or ()
        for position, prefix in enumerate(read):
            if prefix != whole[: position + 1] or len(whole) != len(read):
                self.wrong_reads.append(
                    f"request {req.uid}, position {position}, slot {table[position]}:"
                    f" holds {prefix}, wanted {whole[: position + 1]}"
                )

    def _dummy_slot(self) -> int:
        return self.num_pages * self.ctx.page_size

    def _dummy_slots(self) -> set[int]:
        return {self._dummy_slot()}
