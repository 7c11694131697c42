"""Which tensor-parallel rank this is (mini-sglang: distributed/info.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class DistributedInfo:
    """Rank ``rank`` of ``size``; each rank holds its share of heads, MLP columns and vocabulary."""

    rank: int
    size: int

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise ValueError(f"rank {self.rank} of {self.size}: a rank lies in [0, size).")

    def is_primary(self) -> bool:
        return self.rank == 0


SINGLE = DistributedInfo(rank=0, size=1)
_TP_INFO: DistributedInfo | None = None


def set_tp_info(rank: int, size: int) -> None:
    """Say once per process which rank it is; the same words again are accepted.

    Raises:
        RuntimeError: it was said before, differently.
    """
    global _TP_INFO
    info = DistributedInfo(rank, size)
    if _TP_INFO is not None and info != _TP_INFO:
        raise RuntimeError(f"this process is {_TP_INFO} already; it can't become {info}.")
    _TP_INFO = info


def try_get_tp_info() -> DistributedInfo | None:
    """This rank, or None where none was set."""
    return _TP_INFO


def get_tp_info() -> DistributedInfo:
    """What is current: an engine's own, else what ``set_tp_info`` said, else rank 0 of 1."""
    return _TP_INFO or SINGLE


@contextmanager
def use_tp_info(info: DistributedInfo) -> Iterator[None]:
    """Make an engine's rank current while it is built or runs a step, then restore the former."""
    global _TP_INFO
    former, _TP_INFO = _TP_INFO, info
    try:
        yield
    finally:
        _TP_INFO = former
