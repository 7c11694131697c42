"""Small random checkpoints of each family: our logits and greedy tokens against transformers'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from minisgl_lite import LLM, SamplingParams
from minisgl_lite.models import ModelConfig, open_model
from tests.models.checkpoints import BASE, QWEN2, QWEN3, random_weights, write_folder, write_gguf
from tests.models.standin import build, logits_of

pytestmark = pytest.mark.oracle

TIED = {"tie_word_embeddings": True}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MISTRAL = {"architectures": ["MistralForCausalLM"], "model_type": "mistral"}
CASES: dict[str, dict[str, Any]] = {
    "llama": BASE,
    "llama-tied": BASE | TIED,
    "llama-one-kv-head": BASE | {"num_key_value_heads": 1},
    "llama-no-groups": BASE | {"num_key_value_heads": 8},
    "llama-wide-heads": BASE | {"head_dim": 16},
    "llama3-rope": BASE | {"rope_theta": 500.0, "rope_scaling": LLAMA3},
    "llama-linear-rope": BASE | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "llama-gelu": BASE | {"hidden_act": "gelu"},
    "mistral": BASE | MISTRAL | {"sliding_window": None},
    "qwen2": BASE | QWEN2,
    "qwen2-tied": BASE | QWEN2 | TIED,
    "qwen2-yarn": BASE
    | QWEN2
    | {
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    },
    "qwen3": BASE | QWEN3,
    "qwen3-tied": BASE | QWEN3 | TIED,
}
PROMPT = [int(x) for x in torch.randint(0, 99, (90,), generator=torch.Generator().manual_seed(4))]


@pytest.fixture(params=CASES, scope="module")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp(request.param), CASES[request.param])


@pytest.fixture(scope="module")
def oracle(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=torch.float32, attn_implementation="eager"
    ).eval()


@torch.inference_mode()
def oracle_logits(oracle: Any, ids: list[int]) -> torch.Tensor:
    mask = torch.ones(1, len(ids), dtype=torch.long)
    return oracle(torch.tensor([ids]), attention_mask=mask).logits[0]


def test_logits_of_every_position_equal_transformers(folder: Path, oracle: Any) -> None:
    ours = logits_of(build(open_model(str(folder))), PROMPT)
    theirs = oracle_logits(oracle, PROMPT)
    assert theirs.std() > 0.1
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_the_engines_greedy_tokens_equal_transformers(folder: Path, oracle: Any) -> None:
    prompts = [PROMPT[:7], PROMPT[:33], [*PROMPT[:33], 5]]
    params = SamplingParams(max_tokens=12, ignore_eos=True)
    with LLM(str(folder), page_size=4, num_pages=40, max_extend_tokens=20) as llm:
        stream = [event for event in llm.stream(prompts, params)]
    for number, prompt in enumerate(prompts):
        ids = list(prompt)
        for event in (e for e in stream if e.prompt == number):
            best = oracle_logits(oracle, ids)[-1].topk(2)
            close = float(best.values[0] - best.values[1]) < 1e-4
            assert close or event.token == int(best.indices[0]), (number, len(ids))
            ids.append(event.token)


def test_a_bf16_model_stays_near_its_fp32_self(folder: Path) -> None:
    source = open_model(str(folder))
    wide, narrow = (logits_of(build(source, d), PROMPT) for d in (torch.float32, torch.bfloat16))
    assert narrow.dtype == torch.float32
    assert (wide - narrow).norm() < 0.1 * wide.norm()


@pytest.mark.parametrize("name", ["llama", "llama-tied", "qwen2", "qwen3"])
def test_gguf_of_the_same_weights_gives_the_same_logits(name: str, tmp_path: Path) -> None:
    hf = CASES[name]
    config = ModelConfig.from_hf(hf)
    weights = random_weights(config)
    folder = open_model(str(write_folder(tmp_path / "folder", hf, weights)))
    file = open_model(str(write_gguf(tmp_path / "m.gguf", config, weights)))
    ours, theirs = (logits_of(build(source), PROMPT) for source in (file, folder))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
