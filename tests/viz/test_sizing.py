"""The sizing formula against the engine, and the calculator's widget."""

from __future__ import annotations

import json
import re
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from minisgl_lite.core import Context
from minisgl_lite.distributed import DistributedInfo
from minisgl_lite.engine import Engine
from minisgl_lite.engine.config import EngineConfig
from minisgl_lite.llm import LLM
from minisgl_lite.models import create_model, open_model
from minisgl_lite.models.config import ModelConfig
from minisgl_lite.toy import Toy
from minisgl_lite.viz import sizing
from minisgl_lite.viz.sizing import MODELS, Model, Sizes, calculator, free_bytes, sizes

from . import sizes_grid

COMMON = {"rms_norm_eps": 1e-5, "num_key_value_heads": 8, "head_dim": 128}
CONFIGS = {
    "Llama-3-8B": {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 8192,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "vocab_size": 128256,
    },
    "Qwen3-0.6B": {
        "architectures": ["Qwen3ForCausalLM"],
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "max_position_embeddings": 40960,
        "num_attention_heads": 16,
        "num_hidden_layers": 28,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
}


def config_of(model: Model) -> ModelConfig:
    if model.name in CONFIGS:
        return ModelConfig.from_hf(COMMON | CONFIGS[model.name])
    return open_model("smollm2").config


each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


def asked(model: Model, **changes: Any) -> dict[str, Any]:
    free = free_bytes(80, model.billions, 2, 1)
    shape = {"layers": model.layers, "kv_heads": model.kv_heads, "head_dim": model.head_dim}
    run = {"itemsize": 2, "ranks": 1, "page_size": 16, "free": free, "memory_ratio": 0.9}
    return {**shape, **run, "input_len": 1000, "output_len": 200, "rows": 256, **changes}


# ---- against the engine ----------------------------------------------------------------------


@each_model
def test_the_models_are_what_their_configs_say(model: Model) -> None:
    config = config_of(model)
    shape = (config.num_layers, config.num_kv_heads, config.head_dim)
    assert (model.layers, model.kv_heads, model.head_dim) == shape
    with torch.device("meta"):
        state = create_model(config).state_dict()
    numbers = {id(tensor): tensor.numel() for tensor in state.values()}
    assert round(sum(numbers.values()) / 1e9, 3) == model.billions


def page_count(model: Model, ranks: int, free: int, **config: Any) -> int:
    """What the engine makes of ``free`` bytes on a GPU, without a GPU and without weights."""
    engine = Engine.__new__(Engine)
    engine.device = torch.device("cuda", 0)
    engine.dtype = torch.bfloat16
    engine.ctx = Context(config["page_size"], tp_info=DistributedInfo(0, ranks))
    source = SimpleNamespace(config=config_of(model).filled_up(ranks))
    engine.loaded = SimpleNamespace(source=source)  # type: ignore[assignment]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "mem_get_info", lambda device: (free, free))
        return engine._determine_num_pages(EngineConfig(**config))


@each_model
def test_pages_are_the_engines_own_count(model: Model) -> None:
    for ranks, page_size, ratio, free in product(
        (1, 2, 3, 16), (1, 16, 256), (0.9, 0.55), (10**9, 64 * 2**30 + 12345)
    ):
        ours = sizes(
            **asked(model, ranks=ranks, page_size=page_size, memory_ratio=ratio, free=free)
        )
        engines = page_count(model, ranks, free, page_size=page_size, memory_ratio=ratio)
        assert ours.num_pages == engines, (ranks, page_size, ratio, free)
        assert ours.tokens == engines * page_size


def test_memory_for_no_page_is_refused_as_the_engine_refuses_it() -> None:
    with pytest.raises(ValueError, match="hold no page"):
        page_count(MODELS[0], 1, 2**20, page_size=16)
    with pytest.raises(ValueError, match="hold no page"):
        sizes(**asked(MODELS[0], free=2**20))


def test_bytes_are_those_of_a_real_pool() -> None:
    with LLM("smollm2", page_size=4, num_pages=8) as llm:
        pool = llm.engine.kv_cache
        one_layer = pool.k_cache(0).nbytes + pool.v_cache(0).nbytes
        found = sizes(**asked(MODELS[2], itemsize=4, page_size=4))
        assert one_layer * pool.num_layers == found.bytes_per_page * (8 + 1)


def most_live(num_pages: int, page_size: int, input_len: int, output_len: int) -> int:
    """Equal-sized requests with nothing in common, until one has to wait: how many live."""
    toy = Toy(page_size=page_size, num_pages=num_pages, max_running_req=64)
    for uid in range(64):
        prompt = range(1 + uid * input_len, 1 + (uid + 1) * input_len)
        toy.add(list(prompt), says=[1], max_tokens=output_len)
    most = 0
    while toy.has_work or most == 0:
        before = len(toy.prefill_manager.pending_list) or 64
        toy.step()
        admitted = before - len(toy.prefill_manager.pending_list)
        most = max(most, len(toy.live_reqs()), admitted)
        if admitted == 0:
            break
    return most


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize(("input_len", "output_len"), [(3, 1), (4, 1), (4, 2), (5, 4), (7, 9)])
def test_as_many_requests_are_admitted_as_the_engine_admits(
    page_size: int, input_len: int, output_len: int
) -> None:
    for num_pages in (6, 7, 11, 24):
        found = sizes(
            **sizes_grid.answerable(num_pages, page_size),
            input_len=input_len,
            output_len=output_len,
        )
        assert found.num_pages == num_pages
        if found.admitted > 0:
            live = most_live(num_pages, page_size, input_len, output_len)
            assert found.admitted == live, num_pages


def test_a_request_that_needs_more_than_the_pool_is_never_admitted() -> None:
    found = sizes(**sizes_grid.answerable(3, 4), input_len=9, output_len=5)
    assert found.admitted == 0


# ---- the twin, and the widget ----------------------------------------------------------------


def test_nodes_grid_is_what_python_answers_today() -> None:
    assert sizes_grid.FIXTURE.read_text(encoding="utf-8") == sizes_grid.fixture(), (
        "the formula changed: python -m tests.viz.sizes_grid"
    )


def test_the_grid_meets_every_field_and_every_refusal() -> None:
    answers = [sizes_grid.answer(question) for question in sizes_grid.questions()]
    refused = [text for text in answers if isinstance(text, str)]
    assert len(refused) >= len(sizes_grid.WRONG)
    found = [answer for answer in answers if not isinstance(answer, str)]
    for name in Sizes._fields:
        assert len({answer[name] for answer in found}) > 1, name


def test_the_module_is_one_text_without_imports() -> None:
    source = sizing.module_source()
    assert not re.search(r"^import\b", source, re.MULTILINE)
    assert source.count("export default") == 1


def test_the_calculator_carries_its_values_and_a_table_for_readers_without_scripts() -> None:
    pytest.importorskip("anywidget")
    widget = calculator("Qwen3-0.6B", page_size=64)
    values = json.loads(widget.values)
    assert (values["model"], values["layers"], values["page_size"]) == ("Qwen3-0.6B", 28, 64)
    data = widget._repr_mimebundle_()[0]
    assert "114,688 bytes" in data["text/html"] and "P = 64" in data["text/html"]


@pytest.mark.parametrize(
    ("args", "values", "message"),
    [
        (["GPT-9"], {}, "model 'GPT-9' is not one of: Llama-3-8B"),
        ([], {"pages": 3}, "'pages' is no field; fields are: itemsize"),
        ([], {"page_size": 0}, "page_size 0 is not allowed: 1 or more"),
        ([], {"memory_gib": 4}, "hold no page"),
    ],
)
def test_what_the_calculator_can_not_begin_with_is_named(
    args: list[str], values: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        calculator(*args, **values)
