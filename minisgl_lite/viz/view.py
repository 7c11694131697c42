"""The widget behind ``show``: a trace in one text trait, commands to a driver, nothing else."""

from __future__ import annotations

import functools
import json
import sys
import uuid
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..scheduler import Scheduler
from ..text import say
from ..trace import Trace
from ..utils import require
from . import assets
from .grid import Variants, labelled
from .picture import pair_picture, picture

PANELS = (
    "requests",
    "page_table",
    "pool",
    "out_loc",
    "free_slots",
    "tree",
    "release",
    "events",
    "selected",
    "balance",
    "why",
)


ABOUT_STEPS = ("open", "run", "type")


class History:
    """What a live view has been sent, as a trace: kept here, because hosts drop front-end state."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def take(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Add a driver's answer to the history; returns it with ``at``, the frames before it."""
        if meta := answer.get("meta"):
            self.trace = Trace(meta, [])
        at = len(self.trace.frames)
        self.trace.frames.extend(answer.get("frames", ()))
        vocab = answer.get("vocab", {})
        self.trace.vocab.update({int(k): bytes.fromhex(v) for k, v in vocab.items()})
        return {**answer, "at": at}

    def whole(self) -> dict[str, Any]:
        """All of it as one answer."""
        content = self.trace.to_dict(wall=False)
        return {key: content[key] for key in ("meta", "vocab", "frames")} | {"at": 0}


@functools.cache
def view_class() -> type[Any]:
    """The widget's class. It is made on first use, so that the package imports without anywidget.

    Raises ImportError that names the extra when anywidget is not there.
    """
    anywidget: Any = require("anywidget", extra="book")
    traitlets: Any = require("traitlets", extra="book")

    class RunView(anywidget.AnyWidget):
        """One view of one run. Text traits and JSON messages: binary ones fail in some hosts."""

        _esm = assets.esm()
        _css = assets.css()
        trace = traitlets.Unicode().tag(sync=True)
        other = traitlets.Unicode().tag(sync=True)  # the run beside it, where two are compared
        options = traitlets.Unicode().tag(sync=True)

        def __init__(
            self,
            trace: Trace,
            options: dict[str, Any],
            driver: Any = None,
            other: Trace | None = None,
            grid: Variants | None = None,
        ) -> None:
            super().__init__(
                trace=(grid or trace).to_widget(),
                other="" if other is None else other.to_widget(),
                options=json.dumps(options),
            )
            self._driver = driver
            self._other = other
            self._history = History(trace)
            if driver is not None:
                self.on_msg(self._on_message)

        def _repr_mimebundle_(self, **kwargs: Any) -> Any:
            bundle = super()._repr_mimebundle_(**kwargs)
            # A page without scripts shows this; Colab would show it instead of the view.
            if "google.colab" not in sys.modules and (still := self._still()):
                data = bundle[0] if isinstance(bundle, tuple) else bundle
                data["text/html"] = still
            return bundle

        def _still(self) -> str:
            """The opening step as a picture; of two runs, both; of an engine at rest, words."""
            trace, options = self._history.trace, json.loads(self.options)
            if self._driver is not None and not trace.frames:
                return _at_rest(trace.meta)
            start = options.get("start", 0 if self._driver is None else len(trace) - 1)
            if self._other is None:
                return picture(trace, start)
            return pair_picture((trace, self._other), options.get("start"), options["labels"])

        def _on_message(self, _widget: Any, message: Any, _buffers: Any) -> None:
            if isinstance(message, dict) and isinstance(message.get("op"), str):
                self.send(self._answer(message))

        def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
            command = {key: value for key, value in message.items() if key != "id"}
            if command["op"] == "history":
                answer = self._history.whole()
            else:
                try:
                    answer = self._history.take(self._driver.command(command))
                except Exception as error:
                    # The reader is in front of a browser, not of a log: say it there.
                    answer = {"frames": [], "error": f"{type(error).__name__}: {error}"}
                if not answer.get("busy"):
                    # The notebook is saved with what was seen.
                    self.trace = self._history.trace.to_widget()
            return {**answer, "id": message.get("id")}

    return RunView


def _at_rest(meta: dict[str, Any]) -> str:
    """What a live view is, for where no kernel and no script runs."""
    values = {"P": meta["page_size"], "N": meta["num_pages"], "cache": meta["cache_type"]}
    about = f"{say('live.about', model=meta['model'], **values)} {say('live.about.none')}"
    steps = "".join(f"<li>{escape(say(f'live.about.{name}'))}</li>" for name in ABOUT_STEPS)
    return f"<p>{escape(about)}</p><p>{escape(say('live.about.how'))}</p><ol>{steps}</ol>"


def check_panels(panels: Sequence[str] | None) -> list[str] | None:
    """The panels' names. Raises ValueError for one that is unknown."""
    if panels is None:
        return None
    if isinstance(panels, str) or not all(name in PANELS for name in panels):
        raise ValueError(f"panels {panels!r} is not a list of: {', '.join(PANELS)}")
    return list(panels)


def start_index(trace: Trace, start: str | int | None) -> int | None:
    """The frame that ``start`` means. Raises ValueError when the run has none such."""
    if start is None:
        return None
    if isinstance(start, str):
        return trace.find(start)
    if not 0 <= start < len(trace):
        raise ValueError(f"start {start} is not a frame of this run: 0 to {len(trace) - 1}")
    return start


def show(
    run: Trace | Variants | Mapping[str, Trace] | Scheduler | Any,
    *,
    variant: Mapping[str, Any] | None = None,
    panels: Sequence[str] | None = None,
    start: str | int | None = None,
    title: str | None = None,
    name: str | None = None,
    small: bool = False,
) -> Any:
    """Show a run: a recorded one from its ``Trace``, a live one from an ``LLM``; or runs to choose.

    A live view drives the scheduler: prompts typed into it are decoded one turn at a time, in
    between the cells.

    Args:
        run: a ``Trace``; or a ``Scheduler`` (an ``LLM`` is one); or a driver (``viz/driver.py``);
            or several runs, of which the reader chooses: ``variants(…)``, or Traces by name.
        variant: which of several is shown first, by axis: ``{"page_size": 4}``; of runs by name,
            ``{"run": "radix"}``. Default: the first of each axis.
        panels: which panels are open at first; others are one click away.
            Default: requests, page_table, pool.
        start: the frame to open at: an event's name (``"first-decode:r1"``, see ``Trace.find``)
            or an index.
        title: stands above the run in place of the model's name.
        name: tells the views of a page apart, for links from its text.
        small: the panels alone, without buttons for the others.

    Returns:
        An anywidget; as a cell's last expression it is shown.

    Raises:
        ValueError: ``run`` is none of these; a panel or a variant is unknown; the run has no such
            event.
        ImportError: anywidget is not there (extra ``book``).
    """
    driver = None
    grid = labelled(run) if isinstance(run, Mapping) else run if isinstance(run, Variants) else None
    if grid is None and variant is not None:
        raise ValueError("variant: there is one run here, nothing to choose")
    place = None if grid is None else grid.place(**(variant or {}))
    if grid is not None and place is not None:
        trace = grid.at(place)
    elif isinstance(run, Trace):
        trace = run
    else:
        driver = _driver_of(run)
        trace = driver.trace()
    options: dict[str, Any] = {
        "id": uuid.uuid4().hex,
        "live": driver is not None,
        "variant": place,
        "panels": check_panels(panels),
        "start": start_index(trace, start),
        "title": title,
        "name": name,
        "small": small,
    }
    options = {key: v for key, v in options.items() if v is not None and v is not False}
    return view_class()(trace, options, driver, grid=grid)


def _driver_of(run: Any) -> Any:
    if hasattr(run, "command"):
        return run
    if not isinstance(run, Scheduler):
        raise ValueError(
            "show() takes a Trace, an LLM (or another Scheduler), a driver, or Traces by name, "
            f"not {type(run).__name__}"
        )
    from .driver import LocalDriver

    return LocalDriver(run)


def pool_view(run: Trace, *, start: str | int | None = None, title: str | None = None) -> Any:
    """The KV pool alone, with the timeline. As ``show``."""
    return show(run, panels=["pool"], start=start, title=title, small=True)


def page_table_view(run: Trace, *, start: str | int | None = None, title: str | None = None) -> Any:
    """``page_table`` alone, with the timeline. As ``show``."""
    return show(run, panels=["page_table"], start=start, title=title, small=True)
