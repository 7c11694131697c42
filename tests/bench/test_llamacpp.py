"""llama.cpp as a baseline: what is asked of it, and that it is left out where it can't be asked."""

from __future__ import annotations

import importlib.machinery
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from minisgl_lite.bench.llamacpp import LlamaCpp, llamacpp_decode, llamacpp_file


class _Server:
    short = 0

    def __init__(self, params: Any) -> None:
        self.params, self.asked = params, []

    def handle_completions(self, question: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(question)
        return {"timings": {"predicted_n": question["n_predict"] - self.short}}


class _Params(types.SimpleNamespace):
    def __init__(self) -> None:
        parts = {name: types.SimpleNamespace() for name in ("model", "cpuparams")}
        super().__init__(**parts, cpuparams_batch=types.SimpleNamespace())


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with the two names of ``xllamacpp`` that are used."""
    module = types.ModuleType("xllamacpp")
    module.CommonParams, module.Server = _Params, _Server
    module.__spec__ = importlib.machinery.ModuleSpec("xllamacpp", None)
    monkeypatch.setitem(sys.modules, "xllamacpp", module)


def test_each_prompt_has_its_own_slot_and_is_computed_before_the_clock_runs(stand_in: None) -> None:
    llama = LlamaCpp(Path("x.gguf"), [[1, 2, 3], [4, 5, 6]], threads=2)
    assert llama.decode(24) > 0
    asked = [(q["id_slot"], q["prompt"], q["n_predict"]) for q in llama.server.asked]
    assert sorted(asked[:2]) == [(0, [1, 2, 3], 1), (1, [4, 5, 6], 1)]
    assert sorted(asked[2:]) == [(0, [1, 2, 3], 24), (1, [4, 5, 6], 24)]
    assert llama.server.params.n_ctx == 2 * 67


def test_fewer_tokens_than_asked_for_are_no_result(
    stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Server, "short", 1)
    with pytest.raises(RuntimeError, match=r"llama\.cpp made 0 tokens of 1"):
        LlamaCpp(Path("x.gguf"), [[1]], threads=2).decode(24)


def test_it_is_asked_for_a_file_alone(stand_in: None, tmp_path: Path) -> None:
    assert llamacpp_file("some.gguf") == Path("some.gguf")
    assert llamacpp_file(str(tmp_path)) is None
    assert llamacpp_file("smollm2").suffix == ".gguf"


def test_without_the_package_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert llamacpp_file("smollm2") is None


def test_a_failure_of_its_process_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"llama\.cpp failed: .*"):
        llamacpp_decode(tmp_path / "none.gguf", [[1]], 2)()
