"""Damaged and foreign GGUF files: one line that names path, finding and what is allowed."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from minisgl_lite.models import ModelConfig, open_model
from minisgl_lite.models.gguf import GGUFFile
from tests.models.checkpoints import BASE, random_weights, write_gguf

VERSION, NUM_TENSORS, NUM_VALUES, FIRST_KEY = 4, 8, 16, 24


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a small file without fault."""
    config = ModelConfig.from_hf(BASE)
    path = tmp_path_factory.mktemp("gguf") / "good.gguf"
    return write_gguf(path, config, random_weights(config)).read_bytes()


def refusal(tmp_path: Path, data: bytes) -> str:
    """The message that ``data`` as a file is refused with."""
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(ValueError) as caught:
        GGUFFile(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message


def patched(data: bytes, at: int, layout: str, value: int) -> bytes:
    return data[:at] + struct.pack(layout, value) + data[at + struct.calcsize(layout) :]


def test_the_good_file_is_good(tmp_path: Path, good: bytes) -> None:
    path = tmp_path / "good.gguf"
    path.write_bytes(good)
    assert len(GGUFFile(path).tensors) == 21


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.gguf: there is no such GGUF file"):
        open_model(str(tmp_path / "none.gguf"))


def test_an_empty_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert "empty" in refusal(tmp_path, b"")
    (tmp_path / "folder.gguf").mkdir()
    with pytest.raises(ValueError, match="not a plain file"):
        GGUFFile(tmp_path / "folder.gguf")


@pytest.mark.parametrize("data", [b"PK\x03\x04" + bytes(60), b"GGML" + bytes(60), b"GG", b"{}"])
def test_another_format_is_told_by_its_first_bytes(tmp_path: Path, data: bytes) -> None:
    message = refusal(tmp_path, data)
    assert repr(data[:4]) in message and "b'GGUF'" in message


@pytest.mark.parametrize("version", [0, 1, 4, 3 << 24])
def test_another_version_is_named_with_the_allowed(
    tmp_path: Path, good: bytes, version: int
) -> None:
    message = refusal(tmp_path, patched(good, VERSION, "<I", version))
    assert f"version {version}, allowed: (2, 3)" in message


def test_version_2_is_read_like_3(tmp_path: Path, good: bytes) -> None:
    path = tmp_path / "v2.gguf"
    path.write_bytes(patched(good, VERSION, "<I", 2))
    assert len(GGUFFile(path).tensors) == 21


@pytest.mark.parametrize("at", [NUM_TENSORS, NUM_VALUES, FIRST_KEY])
@pytest.mark.parametrize("value", [2**40, 2**63, 2**64 - 1])
def test_absurd_counts_and_lengths_are_refused_before_anything_is_read(
    tmp_path: Path, good: bytes, at: int, value: int
) -> None:
    assert "truncated" in refusal(tmp_path, patched(good, at, "<Q", value))


def test_an_absurd_array_length_is_refused(tmp_path: Path, good: bytes) -> None:
    at = good.index(b"tokenizer.ggml.token_type") + len("tokenizer.ggml.token_type") + 8
    assert "truncated" in refusal(tmp_path, patched(good, at, "<Q", 2**50))


@pytest.mark.parametrize("share", [0.001, 0.01, 0.05, 0.2, 0.5, 0.9, 0.999])
def test_a_file_cut_anywhere_is_called_truncated(tmp_path: Path, good: bytes, share: float) -> None:
    message = refusal(tmp_path, good[: max(5, int(len(good) * share))])
    assert "truncated" in message


def test_cut_tensor_data_name_the_tensor_and_both_sizes(tmp_path: Path, good: bytes) -> None:
    cut = good[:-40]
    message = refusal(tmp_path, cut)
    assert "tensor '" in message and f"of {len(cut)}" in message


def tensor_info(good: bytes, name: bytes, dims: int) -> int:
    """The offset of a tensor's type in its entry: after name, number of dims, dims."""
    return good.index(name) + len(name) + 4 + 8 * dims


def test_an_unsupported_quantisation_is_named_with_the_supported_ones(
    tmp_path: Path, good: bytes
) -> None:
    at = tensor_info(good, b"blk.0.attn_q.weight", 2)
    message = refusal(tmp_path, patched(good, at, "<I", 12))
    assert "'blk.0.attn_q.weight' has type 12 (Q4_K)" in message
    assert "supported: F32, F16, Q4_0, Q4_1, Q8_0, BF16" in message
    assert "has type 9999 (unknown)" in refusal(tmp_path, patched(good, at, "<I", 9999))


def test_an_offset_outside_the_file_is_refused(tmp_path: Path, good: bytes) -> None:
    at = tensor_info(good, b"blk.0.attn_q.weight", 2) + 4
    for offset in (len(good), 2**63, 2**64 - 1):
        assert "'blk.0.attn_q.weight' ends" in refusal(tmp_path, patched(good, at, "<Q", offset))


@pytest.mark.parametrize(("at", "value"), [(0, 0), (0, 2**62), (8, 2**62)])
def test_absurd_dimensions_are_refused(tmp_path: Path, good: bytes, at: int, value: int) -> None:
    start = tensor_info(good, b"blk.0.attn_q.weight", 0)
    refusal(tmp_path, patched(good, start + at, "<Q", value))


def test_rows_that_are_no_whole_blocks_are_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(str(tmp_path / "w.gguf"), "llama")
    writer.add_tensor("t", np.zeros((2, 48), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    data = (tmp_path / "w.gguf").read_bytes()
    at = data.index(b"t\x02\0\0\0") + 1 + 4 + 16
    assert "not whole blocks" in refusal(tmp_path, patched(data, at, "<I", 8))


def test_text_that_is_no_utf8_is_refused(tmp_path: Path, good: bytes) -> None:
    at = good.index(b"general.architecture")
    assert "utf-8" in refusal(tmp_path, good[:at] + b"\xff\xfe" + good[at + 2 :])


def mutations(good: bytes) -> Callable[[int], bytes]:
    header = good.index(b"output_norm.weight") + 100

    def mutate(seed: int) -> bytes:
        rng, data = random.Random(seed), bytearray(good)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(header)] = rng.randrange(256)
        return bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])

    return mutate


def test_random_damage_never_gives_anything_but_a_line(tmp_path: Path, good: bytes) -> None:
    """Whatever is still a model afterwards loads; everything else is a ValueError."""
    mutate, path, refused = mutations(good), tmp_path / "m.gguf", 0
    for seed in range(300):
        path.write_bytes(mutate(seed))
        try:
            source = open_model(str(path))
            source.tokenizer()
            source.state_dict(torch.float32, torch.device("cpu"))
        except ValueError as error:
            refused += 1
            assert "\n" not in str(error), seed
    assert refused > 150
