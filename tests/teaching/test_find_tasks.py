"""Tasks that ask about a run: each run has one fault of its kind, and every student sees theirs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch

from minisgl_lite.core import Context, use_ctx
from minisgl_lite.kvcache import RadixPrefixCache
from minisgl_lite.teaching.checks import EXERCISES, load_exercises, notebook, show_run
from minisgl_lite.teaching.exercises.radix_policy import one_page_nodes
from minisgl_lite.teaching.release import release, secret_numbers

load_exercises()
SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
FIND = [name for name in EXERCISES.supported_names() if EXERCISES[name].kind == "find"]


def released(target: Path, secret: bytes) -> dict[str, str]:
    (path,) = release(SOLUTIONS, target, ["find-it"], secret_numbers(secret))
    return {cell.id: cell.source for cell in nbformat.read(path, as_version=4).cells}


@pytest.mark.parametrize("name", FIND)
def test_question_run_and_check_are_about_the_same_numbers(name: str, tmp_path: Path) -> None:
    token = secret_numbers(b"0123456789abcdef")(name)
    cells = released(tmp_path, b"0123456789abcdef")
    assert f'show_run("{name}", "{token}", ' in cells[f"{name}-run"]
    assert cells[f"{name}-check"] == f'check("{name}", "{token}")'
    template = EXERCISES[name].template
    assert template is not None
    assert cells[f"{name}-text"] == template.text(template.task(token)).strip()


@pytest.mark.parametrize("name", FIND)
def test_the_place_is_asked_for_as_a_value_and_the_function_as_a_stub(
    name: str, tmp_path: Path
) -> None:
    lines = released(tmp_path, b"0123456789abcdef")[f"{name}-answer"].split("\n")
    assert lines[0] == f"{EXERCISES[name].answer} = None"
    assert [line for line in lines if "raise" in line] == [
        f'    raise NotImplementedError("{name}")'
    ]


@pytest.mark.parametrize("name", FIND)
def test_the_place_is_in_the_run_that_is_shown(name: str) -> None:
    template = EXERCISES[name].template
    assert template is not None and template.run is not None
    for number in range(8):
        task = template.task(f"course {number}")
        place, trace = template.solve(task), template.run(task)
        frames = [frame for frame in trace.frames if frame["turn"] == place["step"]]
        put = [start for frame in frames for start in frame.get("free", {}).get("put", ())]
        assert place["slot"] in put
        # The run goes on, for what follows from it to be seen.
        assert trace.frames[-1]["turn"] > place["step"]
        assert trace.meta["page_size"] == task["page_size"]


def test_the_run_is_shown_but_not_to_a_graders_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget")
    monkeypatch.delenv(notebook.JUDGE, raising=False)
    assert show_run("find-stale-row", panels=["pool"]) is not None
    with pytest.raises(ValueError, match="no run to show"):
        show_run("predict-hit")
    monkeypatch.setenv(notebook.JUDGE, "/nowhere")
    assert show_run("find-stale-row") is None


# ---- the tree that a learner's prefix cache is compared with ------------------------------------


@pytest.mark.parametrize("page_size", [1, 2, 4])
def test_a_node_for_each_page_finds_what_the_packages_own_tree_finds(page_size: int) -> None:
    rng = random.Random(page_size)
    with use_ctx(Context(page_size)):
        whole = RadixPrefixCache(torch.device("cpu"))
    pages = one_page_nodes(page_size)
    handles: list[tuple[Any, Any]] = []
    for step in range(200):
        ids = torch.tensor([rng.randrange(2) for _ in range(rng.randrange(12))], dtype=torch.int32)
        if rng.random() < 0.5:
            slots = torch.arange(len(ids), dtype=torch.int32) + 16 * step
            known = [cache.insert_prefix(ids, slots) for cache in (whole, pages)]
            assert known[0].cached_len == known[1].cached_len
            pair = [result.handle for result in known]
        else:
            pair = [cache.match_prefix(ids).cuda_handle for cache in (whole, pages)]
        found = [handle.get_matched_indices().tolist() for handle in pair]
        assert found[0] == found[1]
        handles.append((pair[0], pair[1]))
        chosen = rng.choice(handles)
        for cache, handle in zip((whole, pages), chosen, strict=True):
            cache.lock_handle(handle)
        assert whole.size_info == pages.size_info
        pages.check_integrity()
    assert all(node.length == page_size for node in pages.nodes())
