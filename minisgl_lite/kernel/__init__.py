"""The hot loops: each a small function with its checks (mini-sglang: kernel/)."""

from .radix import fast_compare_key
from .store import store_cache

__all__ = ["fast_compare_key", "store_cache"]
