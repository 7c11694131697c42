"""Which decode batch sizes an engine pads to."""

from __future__ import annotations

import pytest

from minisgl_lite import LLM
from minisgl_lite.engine.graph import determine_cuda_graph_bs


@pytest.mark.parametrize(
    ("given", "largest", "requests", "sizes"),
    [
        (None, None, 64, []),
        (None, 0, 64, []),
        ([], 32, 64, []),
        ([4, 2, 4], 32, 64, [2, 4]),
        (None, 1, 64, [1]),
        (None, 7, 64, [1, 2, 4]),
        (None, 8, 64, [1, 2, 4, 8]),
        (None, 26, 64, [1, 2, 4, 8, 16, 24]),
        (None, 160, 20, [1, 2, 4, 8, 16]),
    ],
)
def test_sizes_are_those_given_or_the_usual_ones_up_to_the_largest(
    given: list[int] | None, largest: int | None, requests: int, sizes: list[int]
) -> None:
    assert determine_cuda_graph_bs(given, largest, requests) == sizes


def test_an_engine_pads_up_to_cuda_graph_max_bs() -> None:
    with LLM("tiny", num_pages=16, max_running_req=8, cuda_graph_max_bs=4) as llm:
        assert llm.engine.graph_runner.graph_bs_list == [1, 2, 4]
