"""Who runs when, and where its tokens go (mini-sglang: scheduler/)."""

from .cache import CacheManager
from .config import SchedulerConfig
from .decode import DecodeManager
from .io import MessageQueue
from .prefill import ChunkedReq, PrefillAdder, PrefillManager
from .scheduler import ForwardInput, Managers, Scheduler, SchedulerIO
from .table import TableManager
from .utils import PendingReq

__all__ = [
    "CacheManager",
    "ChunkedReq",
    "DecodeManager",
    "ForwardInput",
    "Managers",
    "MessageQueue",
    "PendingReq",
    "PrefillAdder",
    "PrefillManager",
    "Scheduler",
    "SchedulerConfig",
    "SchedulerIO",
    "TableManager",
]
