"""What teachers and exercises put around the engine, from outside.

``published``: behaviours of mini-sglang as published, put into our engine. ``reference``: that
scheduler itself, run from a reader's clone. The engine imports nothing from here.
"""

from __future__ import annotations

from .published import PUBLISHED, published_managers, published_scheduler

__all__ = ["PUBLISHED", "published_managers", "published_scheduler"]
