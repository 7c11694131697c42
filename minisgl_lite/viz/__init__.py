"""Pictures of runs: ``show`` in a notebook is all that is typed.

The engine imports nothing from here.
"""

from __future__ import annotations

from .compared import compare
from .grid import Variants, variants
from .source import source
from .view import page_table_view, pool_view, show

__all__ = ["Variants", "compare", "page_table_view", "pool_view", "show", "source", "variants"]
