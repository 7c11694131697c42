"""Curves over a run, drawn with matplotlib: utilisation, fragmentation, hit rate.

Each takes a ``Trace``, or several by name, and returns a ``DescribedFigure``: as a cell's last
expression it is shown with a sentence that says what it shows, for readers who don't see it.
"""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, TypeAlias

from ..text import say
from ..trace import Trace
from ..trace.measure import PoolUse, hits, pool_use
from ..utils import require

Runs: TypeAlias = "Trace | Mapping[str, Trace]"

SIZE = (7.0, 3.0)  # inches
# Colours that differ in lightness, too; lines differ by their dashes, areas by their hatching.
COLOURS = ("#1d4ed8", "#b45309", "#0f766e", "#7e22ce", "#be185d", "#4d7c0f")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
AREAS = {
    "filled": ("#1d4ed8", ""),
    "held": ("#93b4f5", ""),
    "evictable": ("#e3e7ee", "///"),
    "empty": ("#b45309", "..."),
    "free": ("#ffffff", ""),
}


@functools.cache
def figure_class() -> type[Any]:
    """The class of the figures; it is made on first use, since matplotlib is an extra."""
    figure: Any = require("matplotlib.figure", extra="book")
    matplotlib: Any = require("matplotlib", extra="book")

    class DescribedFigure(figure.Figure):
        """A figure with its alternative text, ``alt``."""

        alt = ""

        def svg(self) -> bytes:
            """The picture; the same figure gives the same bytes."""
            out = io.BytesIO()
            with matplotlib.rc_context({"svg.hashsalt": "minisgl-lite"}):
                self.savefig(out, format="svg", metadata={"Date": None})
            return out.getvalue()

        def _repr_html_(self) -> str:
            data = base64.b64encode(self.svg()).decode()
            style = f"max-width: 100%; width: {self.get_figwidth() * 96:.0f}px; background: #fff"
            source = f"data:image/svg+xml;base64,{data}"
            return f'<img alt="{escape(self.alt, quote=True)}" style="{style}" src="{source}">'

    return DescribedFigure


def _new(title: str, x: str, y: str, figsize: tuple[float, float]) -> tuple[Any, Any]:
    figure = figure_class()(figsize=figsize, layout="constrained")
    axes = figure.add_subplot()
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.get_major_locator().set_params(integer=True)
    return figure, axes


def _named(runs: Runs) -> dict[str, Trace]:
    named = {"": runs} if isinstance(runs, Trace) else runs if isinstance(runs, Mapping) else {}
    if not named or not all(isinstance(run, Trace) for run in named.values()):
        raise ValueError("a figure needs a Trace, or several Traces by name")
    if len(named) > len(COLOURS):
        raise ValueError(f"{len(named)} runs are too many for one figure: {len(COLOURS)} at most")
    return dict(named)


def utilisation(runs: Runs, *, figsize: tuple[float, float] = SIZE) -> Any:
    """How full the pool is, step by step, while the step is on the device.

    Of one run: what its slots are, as areas that add up to the pool. Of several: the share of the
    pool that holds K/V. Raises ValueError; ImportError without matplotlib (extra ``book``).
    """
    named = _named(runs)
    if "" not in named:
        uses = {name: pool_use(trace) for name, trace in named.items()}
        return _shares("utilisation", uses, figsize)
    uses_of_one = pool_use(named[""])
    total = uses_of_one[0].total if uses_of_one else 0
    figure, axes = _new(
        say("figure.utilisation.title"), say("figure.step"), say("figure.slots"), figsize
    )
    turns = [use.turn for use in uses_of_one]
    heights = [[getattr(use, name) for use in uses_of_one] for name in AREAS]
    areas = axes.stackplot(
        turns,
        heights,
        step="mid",
        colors=[colour for colour, _ in AREAS.values()],
        labels=[say(f"figure.area.{name}") for name in AREAS],
        edgecolor="#57606a",
        linewidth=0.6,
    )
    for area, (_, hatch) in zip(areas, AREAS.values(), strict=True):
        area.set_hatch(hatch)
    axes.set_ylim(0, max(1, total))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    shares = [use.utilisation for use in uses_of_one]
    figure.alt = say("figure.utilisation.alt.one", total=total, **_told(turns, shares))
    return figure


def fragmentation(runs: Runs, *, figsize: tuple[float, float] = SIZE) -> Any:
    """The share of the slots that requests keep from others, but which hold nothing, by step.

    It is the rest of last pages: with pages of one token there is none. Raises as ``utilisation``.
    """
    uses = {name: pool_use(trace) for name, trace in _named(runs).items()}
    return _shares("fragmentation", uses, figsize)


def hit_rate(runs: Runs, *, figsize: tuple[float, float] = SIZE) -> Any:
    """The share of prompt tokens found in the cache: of all so far, request by request.

    Of one run, each request's own share stands behind it as a bar. Raises as ``utilisation``.
    """
    named = _named(runs)
    figure, axes = _new(
        say("figure.hits.title"), say("figure.request"), say("figure.hits.y"), figsize
    )
    told = []
    for (name, trace), colour, dash in zip(named.items(), COLOURS, DASHES, strict=False):
        found = hits(trace)
        names = [f"r{hit.uid}" for hit in found]
        sums = [
            (sum(h.matched for h in found[: i + 1]), sum(h.prompt for h in found[: i + 1]))
            for i in range(len(found))
        ]
        shares = [matched / prompt for matched, prompt in sums]
        if not name:
            own = [hit.matched / hit.prompt for hit in found]
            axes.bar(names, own, color="#d5dae1", edgecolor="#57606a", label=say("figure.hits.own"))
        label = name or say("figure.hits.all")
        axes.plot(names, shares, color=colour, linestyle=dash, marker="o", label=label)
        matched, prompt = sums[-1] if sums else (0, 0)
        values = {"matched": matched, "prompt": prompt, "share": _percent(shares[-1:])}
        told.append(say("figure.hits.alt", n=len(found), name=_prefix(name), **values))
    axes.set_ylim(0, 1)
    axes.legend(frameon=False)
    figure.alt = f"{say('figure.hits.title')}. {' '.join(told)}"
    return figure


def _shares(what: str, uses: Mapping[str, Sequence[PoolUse]], figsize: tuple[float, float]) -> Any:
    """A line per run of one of its shares, ``utilisation`` or ``fragmentation``."""
    figure, axes = _new(
        say(f"figure.{what}.title"), say("figure.step"), say(f"figure.{what}.y"), figsize
    )
    told, most = [], 0.05
    for at, (name, steps) in enumerate(uses.items()):
        colour, dash = COLOURS[at], DASHES[at]
        turns = [use.turn for use in steps]
        shares = [getattr(use, what) for use in steps]
        most = max(most, *shares, 0)
        line = {"color": colour, "linestyle": dash, "linewidth": 4 - 3 * at / len(COLOURS)}
        axes.plot(
            turns, shares, label=name or None, **line
        )  # equal lines are seen below each other
        told.append(say("figure.line.alt", name=_prefix(name), **_told(turns, shares)))
    axes.set_ylim(0, 1 if what == "utilisation" else 1.1 * most)
    if "" not in uses:
        axes.legend(frameon=False)
    figure.alt = f"{say(f'figure.{what}.title')}. {' '.join(told)}"
    return figure


def _prefix(name: str) -> str:
    return f"{name}: " if name else ""


def _percent(shares: Sequence[float]) -> str:
    return f"{100 * shares[0]:.0f}%" if shares else "–"


def _told(turns: Sequence[int], shares: Sequence[float]) -> dict[str, Any]:
    """Where a curve begins and ends, and its highest point."""
    best = max(range(len(shares)), key=shares.__getitem__, default=None)
    return {
        "n": len(turns),
        "first": _percent(shares[:1]),
        "last": _percent(shares[-1:]),
        "most": _percent([shares[best]] if best is not None else []),
        "turn": turns[best] if best is not None else "–",
    }


__all__ = ["fragmentation", "hit_rate", "utilisation"]
