"""When a submission was handed in, by the file that nbgrader's collecting leaves beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from ..utils import require
from .intake import Submission

UNKNOWN = "unknown"
"""Of a submission that does not say when it was handed in."""


def moment(text: str) -> datetime:
    """A time as people and nbgrader write it, in UTC; one without a zone is taken for UTC.

    Raises:
        ValueError: it is none.
    """
    utils: Any = require("nbgrader.utils", extra="grade")
    try:
        found: datetime = utils.parse_utc(text.strip())
    except (ValueError, OverflowError, TypeError):
        raise ValueError(
            f"{text.strip()[:40]!r} is no time; write it like '2026-12-01 23:59 UTC'."
        ) from None
    return found.replace(tzinfo=timezone.utc)


def lateness(submissions: Sequence[Submission], due: str) -> dict[str, str]:
    """By student: how much after ``due`` they handed in, "" where it was in time.

    Raises:
        ValueError: ``due`` is no time.
    """
    end = moment(due)
    return {one.student: _how_late(one.handed_in, end) for one in submissions}


def _how_late(handed_in: str, end: datetime) -> str:
    try:
        after = moment(handed_in) - end
    except ValueError:
        return UNKNOWN
    minutes = -(-int(after.total_seconds()) // 60)
    return f"{minutes // 60} h {minutes % 60} min" if after.total_seconds() > 0 else ""


__all__ = ["UNKNOWN", "lateness", "moment"]
