"""Decode steps on a CPU that are recorded once and made again (``engine/tape.py``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from minisgl_lite import LLM, SamplingParams
from minisgl_lite.core import Batch
from minisgl_lite.engine.tape import NotRecordable, TapeRecorder
from minisgl_lite.hooks import Listener
from minisgl_lite.kernel.attend import why_not_compiled
from minisgl_lite.kernel.compiled import launch
from minisgl_lite.kernel.rows import rmsnorm, silu_and_mul
from tests.models.checkpoints import BASE, QWEN2, QWEN3, write_folder

needs_compiler = pytest.mark.skipif(
    why_not_compiled(torch.float32, 64) is not None, reason="no C compiler"
)
SIZES = [1, 2, 4, 8]


def record(step: Callable[[], None]):
    with torch.inference_mode():
        return TapeRecorder()(step)


def test_a_tape_makes_the_step_again_on_what_its_tensors_hold_now() -> None:
    table, weight, ids = torch.randn(20, 8), torch.randn(4), torch.tensor([1, 2, 3])
    y = torch.empty(3, 2)

    def step() -> None:
        x = F.embedding(ids, table)  # an operation that makes a tensor
        x = torch.cat([silu_and_mul(x), x.chunk(2, dim=1)[1]], dim=1)  # compiled; a view
        x += 1  # in place
        x = x.to(torch.float64).float()
        y.copy_(rmsnorm(x[:, :4].contiguous(), weight, 1e-5).view(3, 2, 2).sum(1))

    tape = record(step)
    for new in ([1, 2, 3], [7, 0, 19], [5, 5, 5]):
        ids.copy_(torch.tensor(new))
        with torch.inference_mode():
            tape.replay()
        replayed = y.clone()
        step()
        assert torch.equal(replayed, y)


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: bool(x.sum() > 0),
        lambda x: int(x.sum()),
        lambda x: float(x.sum()),
        lambda x: x.numpy(),
        lambda x: [0] * 9 if [1, 2][x.argmax() * 0] else None,
    ],
)
def test_a_step_that_looks_into_a_tensor_is_not_recorded(look: Callable[..., object]) -> None:
    x = torch.ones(3)
    with pytest.raises(NotRecordable, match="a recorded step can't"):
        record(lambda: look(x + 1))


def test_nothing_is_recorded_outside_and_after_an_error() -> None:
    x, weight = torch.randn(2, 4), torch.randn(4)

    def fails() -> None:
        rmsnorm(x, weight, 1e-5)
        raise KeyError("the step's own")

    with pytest.raises(KeyError):
        record(fails)
    tape = record(lambda: None)
    rmsnorm(x, weight, 1e-5)
    assert tape.calls == []


def test_what_a_step_makes_once_is_not_made_again() -> None:
    made: list[torch.Tensor] = []
    x = torch.randn(4)

    def step() -> None:
        if not made:
            made.append(torch.arange(4.0).sin())
        x.add_(made[0])

    tape = record(step)
    assert len(tape.calls) == 1
    before = x.clone()
    tape.replay()
    assert torch.equal(x, before + made[0])


def test_a_call_that_fails_in_a_replay_says_why() -> None:
    import ctypes

    answers = [0, 0, 3]  # of the run before, the recorded one, and the replay
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(lambda _: answers.pop(0))
    tape = record(lambda: launch(function, refuse=lambda bad: ValueError(f"bad {bad}")))
    with pytest.raises(ValueError, match="bad 3"):
        tape.replay()


PROMPTS = [[*range(3 + i, 20 + 3 * i)] for i in range(5)]
PARAMS = [SamplingParams(max_tokens=n, ignore_eos=True) for n in (9, 3, 12, 6, 1)]
MADE_UP = {
    "llama": BASE | {"head_dim": 16},
    "gelu": BASE | {"head_dim": 16, "hidden_act": "gelu"},
    "qwen2": BASE | QWEN2 | {"head_dim": 16},
    "qwen3": BASE | QWEN3,
}
"""One of each kind of layer; heads as wide as the compiled attention wants them."""


def tokens(llm: LLM) -> list[list[int]]:
    return [result["token_ids"] for result in llm.generate(PROMPTS, PARAMS)]


@pytest.fixture(params=["smollm2", *MADE_UP])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    made_up = MADE_UP.get(request.param)
    return request.param if made_up is None else str(write_folder(tmp_path / "model", made_up))


@needs_compiler
@pytest.mark.parametrize(
    ("page_size", "overlap", "dtype"),
    [(1, True, torch.float32), (16, False, torch.bfloat16), (16, True, torch.float32)],
)
def test_replayed_steps_give_the_tokens_of_eager_ones(
    model: str, page_size: int, overlap: bool, dtype: torch.dtype
) -> None:
    pool = {"page_size": page_size, "num_pages": 512 // page_size, "overlap": overlap}
    with LLM(model, dtype, **pool) as eager:
        wanted = tokens(eager)
        with LLM(model, dtype, loaded=eager.engine.loaded, cuda_graph_bs=SIZES, **pool) as recorded:
            runner, replays = recorded.engine.graph_runner, []
            assert sorted(runner.graph_map) == SIZES
            replay = runner.replay
            runner.replay = lambda batch: replays.append(batch.padded_size) or replay(batch)
            assert tokens(recorded) == wanted
            assert {1, 2, 4} <= set(replays)


class _Layers(Listener):
    def __init__(self, seen: list[int]) -> None:
        self.seen = seen

    def on_store(self, layer_id: int, batch: Batch) -> None:
        self.seen.append(layer_id)


@needs_compiler
def test_who_watches_sees_each_layer_and_the_same_tokens() -> None:
    with LLM("smollm2", num_pages=256, cuda_graph_bs=SIZES) as llm:
        wanted, seen = tokens(llm), []
        llm.hooks.attach(_Layers(seen))
        llm.engine.graph_runner.replay = None  # not called: it would fail
        assert tokens(llm) == wanted
        assert set(seen) == set(range(llm.engine.kv_cache.num_layers))


@pytest.mark.parametrize("model", ["smollm2", "tiny"])
def test_a_backend_that_gathers_is_only_padded(model: str) -> None:
    with LLM(model, num_pages=64, cuda_graph_bs=SIZES, attention_backend="torch") as llm:
        assert llm.engine.graph_runner.graph_map == {}
        assert llm.engine.graph_runner.graph_bs_list == SIZES
