"""What the engine did: recorded, replayed, compared and checked.

``Recorder`` and ``KVSanitizer`` attach to ``scheduler.hooks``; the sanitizer is called before the
recorder. The engine imports nothing from here.
"""

from __future__ import annotations

from .compare import Difference
from .recorder import Recorder
from .replay import Replay, ReqState, State
from .runs import from_runs, to_runs
from .sanitizer import KVSanitizer, KVSanitizerError
from .trace import Trace, TraceError

__all__ = [
    "Difference",
    "KVSanitizer",
    "KVSanitizerError",
    "Recorder",
    "Replay",
    "ReqState",
    "State",
    "Trace",
    "TraceError",
    "from_runs",
    "to_runs",
]
