from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from minisgl_lite.kernel import store
from minisgl_lite.kernel.store import store_cache


def arguments(**changes: Any) -> dict[str, Any]:
    """Three tokens for a cache of ten slots; any argument may be put in another's place."""
    good = {
        "k_cache": torch.full((10, 2, 4), -1.0),
        "v_cache": torch.full((10, 2, 4), -2.0),
        "indices": torch.tensor([7, 0, 3], dtype=torch.int32),
        "k": torch.randn(3, 2, 4),
        "v": torch.randn(3, 2, 4),
    }
    return good | changes


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_rows_go_to_their_slots_and_nowhere_else(dtype: torch.dtype) -> None:
    args = arguments(indices=torch.tensor([7, 0, 3], dtype=dtype))
    store_cache(**args)
    assert torch.equal(args["k_cache"][[7, 0, 3]], args["k"])
    assert torch.equal(args["v_cache"][[7, 0, 3]], args["v"])
    others = [1, 2, 4, 5, 6, 8, 9]
    assert (args["k_cache"][others] == -1).all() and (args["v_cache"][others] == -2).all()


def test_rows_may_be_flat_or_strided() -> None:
    qkv = torch.randn(3, 32)
    args = arguments(k=qkv[:, 16:24], v=torch.randn(2, 3, 4).transpose(0, 1))
    store_cache(**args)
    assert torch.equal(args["k_cache"][[7, 0, 3]].flatten(1), qkv[:, 16:24])
    assert torch.equal(args["v_cache"][[7, 0, 3]], args["v"])


def test_nothing_to_store() -> None:
    empty = torch.empty(0, 2, 4)
    args = arguments(indices=torch.empty(0, dtype=torch.int32), k=empty, v=empty)
    store_cache(**args)
    assert (args["k_cache"] == -1).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"v_cache": torch.zeros(9, 2, 4)}, r"caches are \(slots, heads, dim\) alike.*\(9, 2, 4\)"),
        ({"v_cache": torch.zeros(10, 2, 4).half()}, "caches are alike.*float16"),
        ({"k_cache": torch.zeros(10, 4, 2).transpose(1, 2)}, r"k_cache has strides \(8, 1, 2\)"),
        ({"indices": torch.tensor([0.0, 1.0, 2.0])}, "int32 or int64, not .*float32"),
        ({"indices": torch.tensor([[0, 1, 2]])}, r"not \(1, 3\)"),
        ({"k": torch.zeros(2, 2, 4)}, r"k has shape \(2, 2, 4\); \(3, 2, 4\) or \(3, 8\)"),
        ({"v": torch.zeros(3, 4, 2)}, r"v has shape \(3, 4, 2\)"),
        ({"v": torch.zeros(3, 2, 4).double()}, "v is torch.float64.*the cache is torch.float32"),
        ({"indices": torch.tensor([0, 10, 1])}, r"slot 10 is outside the pool's \[0, 10\)"),
        ({"indices": torch.tensor([0, -1, 1])}, r"slot -1 is outside the pool's \[0, 10\)"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    changes: dict[str, Any], words: str
) -> None:
    args = arguments(**changes)
    before = [args["k_cache"].clone(), args["v_cache"].clone()]
    with pytest.raises(ValueError, match=words):
        store_cache(**args)
    assert torch.equal(args["k_cache"], before[0]) and torch.equal(args["v_cache"], before[1])


def test_a_cpu_takes_torch_even_where_triton_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "triton_is_installed", lambda: True)
    monkeypatch.setitem(sys.modules, "minisgl_lite.kernel.triton_store", None)  # import: an error
    store_cache(**arguments())
