"""What a scheduler is built from (mini-sglang: scheduler/config.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from ..engine.config import EngineConfig
from ..kvcache import SUPPORTED_CACHE_MANAGER


@dataclass
class SchedulerConfig(EngineConfig):
    """``max_extend_tokens``: prompt tokens of one step. ``eos_token_id``: what ends a text."""

    max_extend_tokens: int = 8192
    cache_type: str = "radix"
    eos_token_id: int | Sequence[int] | None = None

    def validate(self) -> None:
        super().validate()
        if not isinstance(self.max_extend_tokens, int) or self.max_extend_tokens < 1:
            raise ValueError(
                f"max_extend_tokens {self.max_extend_tokens!r} is not allowed: 1 or more."
            )
        SUPPORTED_CACHE_MANAGER.assert_supported(self.cache_type)
        eos = self.eos_token_id
        ids = [] if eos is None else [eos] if isinstance(eos, Integral) else eos
        if not isinstance(ids, list | tuple | set | frozenset) or not all(
            isinstance(token, Integral) and not isinstance(token, bool) for token in ids
        ):
            raise ValueError(
                f"eos_token_id {eos!r:.60} is not allowed: a token id, several, or None."
            )
