"""The GGUF file of the wheel: every tensor, the metadata, and how long it takes."""

from __future__ import annotations

import time

import gguf
import pytest
import torch

from minisgl_lite.models import ModelSource, open_model
from minisgl_lite.models.gguf import GGUFFile, find_smollm2


@pytest.fixture(scope="module")
def oracle() -> gguf.GGUFReader:
    return gguf.GGUFReader(str(find_smollm2()))


def test_every_tensor_equals_the_gguf_packages(oracle: gguf.GGUFReader) -> None:
    file = GGUFFile(find_smollm2())
    assert list(file.tensors) == [tensor.name for tensor in oracle.tensors]
    for tensor in oracle.tensors:
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert torch.equal(file.read(tensor.name), torch.tensor(expected)), tensor.name


def test_every_metadata_value_equals_the_gguf_packages(oracle: gguf.GGUFReader) -> None:
    file = GGUFFile(find_smollm2())
    fields = {k: f for k, f in oracle.fields.items() if not k.startswith("GGUF.")}
    assert list(file.metadata) == list(fields)
    for key in fields:
        if "tokens" not in key and "merges" not in key:
            assert file.metadata[key] == fields[key].contents(), key
    for key in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges"):
        field = fields[key]
        picked = range(0, len(field.data), 997)
        texts = [bytes(field.parts[field.data[i]]).decode() for i in picked]
        assert [file.metadata[key][i] for i in picked] == texts
        assert len(file.metadata[key]) == len(field.data)


def test_config_is_the_published_one(smollm2: ModelSource) -> None:
    config = smollm2.config
    assert (config.num_layers, config.hidden_size, config.intermediate_size) == (30, 576, 1536)
    assert (config.num_qo_heads, config.num_kv_heads, config.head_dim) == (9, 3, 64)
    assert (config.vocab_size, config.tie_word_embeddings) == (49152, True)
    assert config.rms_norm_eps == pytest.approx(1e-5)
    assert config.rotary_config.base == 100000.0
    assert config.rotary_config.max_position == 8192
    assert smollm2.eos_token_ids == (2,)


def test_it_loads_well_within_three_seconds_on_one_thread() -> None:
    took = []
    for _ in range(2):  # the first may read a cold disk
        start = time.process_time()
        source = open_model("smollm2")
        source.state_dict(torch.float32, torch.device("cpu"))
        source.tokenizer()
        took.append(time.process_time() - start)
    assert min(took) < 3.0, took
