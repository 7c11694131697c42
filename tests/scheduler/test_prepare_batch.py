"""Places for one iteration: pages, positions, mappings, `out_loc`, in the order the model sees."""

from __future__ import annotations

import pytest
import torch
from helpers.world import World, make_world

from minisgl_lite.scheduler.scheduler import ForwardInput


def prepared(w: World) -> list[ForwardInput]:
    """Every prepared batch from now on."""
    seen: list[ForwardInput] = []
    prepare = w.scheduler._prepare_batch

    def watch(batch):
        forward_input = prepare(batch)
        seen.append(forward_input)
        return forward_input

    w.scheduler._prepare_batch = watch  # type: ignore[method-assign]
    return seen


def pairs(mapping: tuple[torch.Tensor, torch.Tensor]) -> list[tuple[int, int]]:
    rows, cols = mapping
    assert rows.dtype == cols.dtype == torch.int64
    return list(zip(rows.tolist(), cols.tolist(), strict=True))


def test_a_prefill_batch_lists_its_tokens_request_by_request() -> None:
    w = make_world(16, 4)
    seen = prepared(w)
    w.add(0, range(1, 6), max_tokens=2)
    w.add(1, [9, 8], max_tokens=1)
    w.step()
    (forward_input,) = seen
    batch = forward_input.batch
    assert batch.positions.tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert batch.positions.dtype == torch.int32
    assert pairs(forward_input.input_tuple) == [*[(7, i) for i in range(5)], (6, 0), (6, 1)]
    assert batch.out_loc.tolist() == [0, 1, 2, 3, 4, 8, 9]
    assert batch.out_loc.dtype == torch.int32
    assert batch.input_ids.tolist() == [1, 2, 3, 4, 5, 9, 8]
    assert batch.input_ids.dtype == torch.int32
    # the sampled tokens go behind the prompts, as both had a step to come
    assert pairs(forward_input.write_tuple) == [(7, 5), (6, 2)]


def test_only_the_uncached_tokens_take_part() -> None:
    w = make_world(16, 4)
    w.add(0, range(1, 10), max_tokens=1)
    w.run()
    seen = prepared(w)
    w.add(1, [*range(1, 9), 50, 51], max_tokens=1)
    w.step()
    batch = seen[0].batch
    assert batch.positions.tolist() == [8, 9]
    assert batch.input_ids.tolist() == [50, 51]
    assert w.engine.page_table[7, :8].tolist() == list(range(8))  # the cached pages
    assert batch.out_loc.tolist() == [12, 13]


def test_a_chunk_throws_its_token_into_column_minus_one() -> None:
    w = make_world(16, 4, budget=3)
    seen = prepared(w)
    w.add(0, range(1, 6), max_tokens=2)
    w.add(1, [9, 8], max_tokens=2)
    w.step(2)
    assert pairs(seen[0].write_tuple) == [(7, -1)]
    assert pairs(seen[1].write_tuple) == [(7, 5), (6, -1)]
    assert seen[1].batch.positions.tolist() == [3, 4, 0]


def test_padding_takes_part_in_the_step_but_not_in_allocation_or_writing() -> None:
    w = make_world(16, 4, graph_bs=(4,))
    seen = prepared(w)
    w.add(0, [1, 2, 3, 4], max_tokens=3)
    w.add(1, [9, 8], max_tokens=3)
    w.step(2)
    before = list(w.free)
    forward_input = seen[1]
    batch = forward_input.batch
    assert (batch.size, batch.padded_size) == (2, 4)
    assert batch.positions.tolist() == [4, 2, 0, 0]
    assert pairs(forward_input.input_tuple) == [(7, 4), (6, 2), (8, 0), (8, 0)]
    assert batch.out_loc.tolist() == [8, 6, 64, 64]  # the dummy page, one past the managed ones
    assert pairs(forward_input.write_tuple) == [(7, 5), (6, 3)]
    assert batch.input_ids.tolist()[2:] == [0, 0]
    assert len(before) == 16 - 3  # two prompts' pages and one new page: none for the dummies


@pytest.mark.parametrize("loop", ["normal", "overlap", "late"])
def test_out_loc_is_the_tables_cut_for_the_new_tokens(loop: str) -> None:
    w = make_world(24, 2, loop=loop, budget=4)
    seen = prepared(w)
    lookups = []
    prepare = w.scheduler._prepare_batch

    def compare(batch):
        forward_input = prepare(batch)
        table = w.engine.page_table
        want = [
            int(table[req.table_idx, position])
            for req in batch.reqs
            for position in range(req.cached_len, req.device_len)
        ]
        lookups.append(batch.out_loc.tolist() == want)
        return forward_input

    w.scheduler._prepare_batch = compare  # type: ignore[method-assign]
    for uid in range(4):
        w.add(uid, [1, 2, 3, uid, 5], max_tokens=3)
    w.run()
    assert len(lookups) == len(seen) > 5 and all(lookups)


def test_values_of_a_launched_batch_are_not_changed_by_later_turns() -> None:
    w = make_world(12, 2, loop="late")
    seen = prepared(w)
    copies: list[tuple[ForwardInput, list[torch.Tensor]]] = []
    for uid in range(6):
        w.add(uid, [uid, 1, 2], max_tokens=3)
    while w.busy:
        w.step()
        for forward_input in seen[len(copies) :]:
            tensors = [forward_input.batch.out_loc, *forward_input.batch.attn_metadata]
            copies.append((forward_input, [t.clone() for t in tensors]))
    for forward_input, kept in copies:
        tensors = [forward_input.batch.out_loc, *forward_input.batch.attn_metadata]
        assert all(torch.equal(a, b) for a, b in zip(tensors, kept, strict=True))
