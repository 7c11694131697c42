from __future__ import annotations

import pytest
import torch

from minisgl_lite.core import Context, use_ctx
from minisgl_lite.kvcache import SUPPORTED_CACHE_MANAGER, create_prefix_cache
from minisgl_lite.kvcache.naive_cache import NaivePrefixCache
from minisgl_lite.kvcache.radix_cache import RadixPrefixCache


def test_two_policies_are_registered() -> None:
    assert sorted(SUPPORTED_CACHE_MANAGER.supported_names()) == ["naive", "radix"]


def test_create_by_name() -> None:
    with use_ctx(Context(page_size=4)):
        assert isinstance(
            create_prefix_cache(device=torch.device("cpu"), type="radix"), RadixPrefixCache
        )
        assert isinstance(
            create_prefix_cache(device=torch.device("cpu"), type="naive"), NaivePrefixCache
        )


def test_unknown_name_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(ValueError, match=r"lru.*naive.*radix|lru.*radix.*naive") as error:
        create_prefix_cache(device=torch.device("cpu"), type="lru")
    assert "\n" not in str(error.value)
