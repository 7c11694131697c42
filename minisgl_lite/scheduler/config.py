"""What a scheduler is built from (mini-sglang: scheduler/config.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
                f"max_extend_tokens {self.max_extend_tokens} is not allowed: 1 or more."
            )
        SUPPORTED_CACHE_MANAGER.assert_supported(self.cache_type)
