"""Step for step against mini-sglang's own scheduler and managers, from a clone.

Needs MINISGL_PATH, a clone of mini-sglang at the commit that ``teaching/published.py`` names;
without it everything here is skipped. Many more streams: ``python -m tests.reference.measure``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from minisgl_lite.core import SamplingParams
from minisgl_lite.llm import LLM
from minisgl_lite.scheduler.cache import CacheManager
from minisgl_lite.scheduler.prefill import PrefillAdder
from minisgl_lite.scheduler.table import TableManager
from minisgl_lite.teaching.clone import find_clone
from minisgl_lite.teaching.published import PUBLISHED
from minisgl_lite.teaching.reference import reference_scheduler
from tests.reference.damage import damage
from tests.reference.pairs import Difference, compare, explain
from tests.reference.streams import draw
from tests.teaching.sides import minisgl

pytestmark = pytest.mark.reference

blocks = pytest.mark.parametrize("first", range(0, 120, 20))
"""Blocks of 20 seeds."""


@pytest.fixture(autouse=True)
def clone() -> Any:
    return minisgl()


@blocks
def test_with_the_published_behaviours_every_stream_agrees(first: int) -> None:
    for seed in range(first, first + 20):
        outcome = compare(draw(seed), "all")
        assert outcome.difference is None, str(outcome.difference)


@blocks
def test_with_the_published_behaviours_streams_with_aborts_agree_too(first: int) -> None:
    for seed in range(first, first + 20):
        outcome = compare(draw(seed, aborts=True), "all")
        assert outcome.difference is None, str(outcome.difference)


@blocks
def test_ours_differs_by_whole_pages_and_partial_hits_alone(first: int) -> None:
    """And by whole pages only with P > 1, after a request had to wait for pages."""
    for seed in range(first, first + 20):
        stream = draw(seed)
        explained = explain(stream)
        assert explained.last.difference is None, str(explained.last.difference)
        if "token-wise-admission" in explained.needed:
            assert stream.page_size > 1 and explained.first.refused, f"seed {seed}"


def test_the_streams_reach_what_they_are_for() -> None:
    """Tight pools, errors on both sides, duplicates; else the comparison would say little."""
    outcomes = [compare(draw(seed), "all") for seed in range(60)]
    assert sum(outcome.refused for outcome in outcomes) >= 20
    assert sum(outcome.raised for outcome in outcomes) >= 2
    streams = [draw(seed, loop="normal") for seed in range(60)]
    assert sum("read" in damage(stream, "minisgl") for stream in streams) >= 3
    assert not any(damage(stream, "corrected") for stream in streams)


# --- the comparison sees a difference ------------------------------------------------------------


def free_to_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    def append(self: CacheManager, pages: list[int]) -> None:
        self._queue.extendleft(pages)

    monkeypatch.setattr(CacheManager, "_append", append)


def lowest_row_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableManager, "allocate", lambda self: self._free_slots.pop(0))


def match_one_token_less(monkeypatch: pytest.MonkeyPatch) -> None:
    def match_req(self: CacheManager, req: Any) -> Any:
        return self.prefix_cache.match_prefix(req.input_ids[: max(0, req.input_len - 2)])

    monkeypatch.setattr(CacheManager, "match_req", match_req)


def reserve_one_token_more(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PrefillAdder._fits
    monkeypatch.setattr(PrefillAdder, "_fits", lambda self, need: whole(self, need + 1))


def point_one_cell_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CacheManager._remap

    def remap(self: CacheManager, row: torch.Tensor, handle: Any, start: int, end: int) -> Any:
        row[end] += 1
        return whole(self, row, handle, start, end)

    monkeypatch.setattr(CacheManager, "_remap", remap)


@pytest.mark.parametrize(
    ("plant", "side", "what"),
    [
        (free_to_the_head, "all", {"free_slots"}),
        (lowest_row_first, "all", {"the batch and its places"}),
        (match_one_token_less, "all", {"the batch and its places"}),
        (reserve_one_token_more, "all", {"the batch and its places"}),
        (point_one_cell_too_far, "corrected", {"page_table"}),
    ],
)
def test_a_planted_fault_is_found_and_named(
    plant: Callable[[pytest.MonkeyPatch], None],
    side: str,
    what: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    found: list[Difference] = []
    for seed in range(40):
        difference = compare(draw(seed, loop="normal"), side).difference
        if difference is not None:
            found.append(difference)
    assert what & {difference.what for difference in found}


@pytest.mark.parametrize("name", [n for n in PUBLISHED.supported_names() if n != "set-order"])
def test_leaving_one_behaviour_out_is_noticed(name: str) -> None:
    """But for the order of a set, which the comparison sorts away."""
    others = "+".join(n for n in PUBLISHED.supported_names() if n != name)
    streams = (draw(seed, aborts=name == "late-abort") for seed in range(200))
    outcomes = (compare(stream, others) for stream in streams)
    assert any(outcome.difference is not None or outcome.pointed_anew for outcome in outcomes)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_real_model_says_the_same_over_the_published_scheduler(clone: Any, overlap: bool) -> None:
    """One prompt at a time, so that nothing of another request can be read."""
    prompts = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [30, 31]]
    said = []
    for made in (LLM, reference_scheduler(clone, base=LLM)):
        with made("tiny", page_size=4, num_pages=16, overlap=overlap) as llm:
            params = SamplingParams(max_tokens=1 if overlap else 5)
            said.append([llm.generate([prompt], params) for prompt in prompts])
    assert said[0] == said[1]


# --- its own tests -------------------------------------------------------------------------------


def own_tests() -> list[Path]:
    """mini-sglang's tests of its core that hold test functions."""
    try:
        folder = find_clone().parent / "tests" / "core"
    except ValueError:
        return []
    return [path for path in sorted(folder.glob("test_*.py")) if "def test_" in path.read_text()]


def test_its_own_tests_pass_with_the_import_renamed(tmp_path: Path) -> None:
    files = own_tests()
    assert [path.name for path in files] == ["test_cache_allocate.py"]
    for path in files:
        text = path.read_text().replace("minisgl", "minisgl_lite")
        (tmp_path / path.name).write_text(text)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(root)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout
