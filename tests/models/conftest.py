"""The real model and its oracle, each loaded once for all tests that ask."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from minisgl_lite.models import ModelSource, Tokenizer, open_model
from minisgl_lite.models.gguf import find_smollm2


@pytest.fixture(scope="session")
def smollm2() -> ModelSource:
    return open_model("smollm2")


@pytest.fixture(scope="session")
def tokenizer(smollm2: ModelSource) -> Tokenizer:
    return smollm2.tokenizer()


@pytest.fixture(scope="session")
def hf_smollm2() -> Any:
    """transformers' model of the same file, fp32; takes a while."""
    from transformers import AutoModelForCausalLM

    path = find_smollm2()
    return AutoModelForCausalLM.from_pretrained(
        str(path.parent),
        gguf_file=path.name,
        dtype=torch.float32,
        attn_implementation="eager",
    ).eval()
