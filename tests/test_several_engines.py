"""Any number of engines live in one process; each makes itself current only while it works."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from helpers.tiny import PROMPTS, make_llm, run
from helpers.world import make_world

from minisgl_lite import LLM, SamplingParams, core

GREEDY = SamplingParams(max_tokens=6, ignore_eos=True)


def test_two_engines_of_different_page_size_stepped_in_turn() -> None:
    alone = run(make_llm(page_size=4))
    engines = [make_llm(page_size=1, num_pages=96), make_llm(page_size=4), make_llm(page_size=16)]
    for llm in engines:
        for uid, prompt in enumerate(PROMPTS):
            ids = torch.tensor(prompt, dtype=torch.int32)
            llm.io.send(core_msg(uid, ids))
    while any(llm.has_work or llm.io.waiting for llm in engines):
        for llm in engines:
            if llm.has_work or llm.io.waiting:
                llm.normal_loop()
                assert core._GLOBAL_CTX is None
    for llm in engines:
        said: dict[int, list[int]] = {}
        for reply in llm.io.replies:
            said.setdefault(reply.uid, []).append(reply.next_token)
        assert said == alone
        llm.close()


def core_msg(uid: int, ids: torch.Tensor):
    from minisgl_lite.message import UserMsg

    return UserMsg(uid, ids, GREEDY)


def test_two_schedulers_of_different_page_size_stepped_in_turn() -> None:
    worlds = [make_world(32 // p, p, script=None) for p in (1, 2, 4)]
    for w in worlds:
        for uid in range(3):
            w.add(uid, [1, 2, 3, 4, 5 + uid], max_tokens=5)
    while any(w.busy for w in worlds):
        for w in worlds:
            w.step()
    assert worlds[0].replies == worlds[1].replies == worlds[2].replies


def test_a_cell_run_twice_works_twice() -> None:
    """The first engine is still there when its name is bound anew, as in a notebook."""
    results = []
    for _ in range(2):
        llm = LLM("tiny", page_size=4, num_pages=24)
        results.append(llm.generate(PROMPTS, GREEDY))
    assert results[0] == results[1]
    assert core._GLOBAL_CTX is None


def test_nothing_is_current_outside_construction_and_steps() -> None:
    assert core._GLOBAL_CTX is None
    with make_llm() as llm:
        assert core._GLOBAL_CTX is None
        llm.generate([[1, 2]], GREEDY)
        assert core._GLOBAL_CTX is None
    with pytest.raises(ValueError):
        LLM("tiny", cache_type="no-such-cache")
    assert core._GLOBAL_CTX is None


def test_an_engine_runs_inside_someone_elses_context() -> None:
    """A context set for the whole process stays what it was."""
    mine = core.Context(page_size=7)
    with core.use_ctx(mine):
        with make_llm(page_size=4) as llm:
            assert llm.cache_manager.prefix_cache.page_size == 4
            assert llm.generate([PROMPTS[0]], GREEDY)[0]["error"] is None
        assert core.get_global_ctx() is mine
        assert mine.page_size == 7 and not hasattr(mine, "kv_cache")


def test_close_frees_weights_and_pool() -> None:
    llm = make_llm()
    llm.generate([PROMPTS[0]], GREEDY)
    pool = weakref.ref(llm.engine.kv_cache)
    model = weakref.ref(llm.engine.model)
    llm.close()
    llm.close()
    gc.collect()
    assert pool() is None and model() is None
    with pytest.raises(RuntimeError, match="closed"):
        llm.generate([PROMPTS[0]], GREEDY)


def test_shared_weights_outlive_the_engine_that_loaded_them() -> None:
    first = make_llm()
    second = first.fork(page_size=1, num_pages=96)
    want = first.generate(PROMPTS, GREEDY)
    first.close()
    assert second.generate(PROMPTS, GREEDY) == want
    second.close()


def test_use_after_an_error_in_a_with_block() -> None:
    with pytest.raises(KeyError), make_llm() as llm:
        raise KeyError
    assert llm.closed
