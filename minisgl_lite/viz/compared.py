"""Two runs under one timeline, side by side."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from ..trace import Trace
from .view import check_panels, start_index, view_class

WAYS = ("step", "event")


def compare(
    first: Trace,
    second: Trace,
    labels: Sequence[str] = ("first", "second"),
    *,
    by: str = "step",
    panels: Sequence[str] | None = None,
    start: str | int | None = None,
    title: str | None = None,
    name: str | None = None,
) -> Any:
    """Show two recorded runs side by side; what differs is marked, said and one click away.

    ::

        compare(naive, radix, labels=("naive", "radix"))

    Args:
        first, second: the runs. They should answer the same requests.
        labels: their names, short.
        by: how they go together, which the reader can change: by ``"step"``, so that both are in
            the same step; or by ``"event"``, so that both do the same for the same request.
        panels: as in ``show``.
        start: the frame of the first run to open at, as in ``show``. Default: the first difference,
            the earliest place of the common timeline at which any panel shows something else.
            Whether the output tokens differ, and where first, is said there; that is what
            ``Trace.compare`` asks first.
        title, name: as in ``show``.

    Returns:
        An anywidget; as a cell's last expression it is shown.

    Raises:
        ValueError: these are not two traces and two names; ``by``, a panel or ``start`` is unknown.
        ImportError: anywidget is not there (extra ``book``).
    """
    for run in (first, second):
        if not isinstance(run, Trace):
            raise ValueError(f"compare() takes two Traces, not {type(run).__name__}")
    names = [str(label) for label in labels] if not isinstance(labels, str) else []
    if len(names) != 2 or names[0] == names[1]:
        raise ValueError(f"labels {labels!r} are not two different names")
    if by not in WAYS:
        raise ValueError(f"by {by!r} is not one of: {', '.join(WAYS)}")
    options: dict[str, Any] = {
        "id": uuid.uuid4().hex,
        "labels": names,
        "by": by,
        "panels": check_panels(panels),
        "start": start_index(first, start),
        "title": title,
        "name": name,
    }
    options = {key: value for key, value in options.items() if value is not None}
    return view_class()(first, options, other=second)
