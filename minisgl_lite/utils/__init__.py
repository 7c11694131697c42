"""Small helpers without a subject of their own (mini-sglang: utils/)."""

from .extras import require
from .misc import align_ceil, align_down, div_ceil, div_even
from .ordered_set import OrderedSet
from .registry import Registry

__all__ = ["OrderedSet", "Registry", "align_ceil", "align_down", "div_ceil", "div_even", "require"]
