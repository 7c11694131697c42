"""One step of a run as a still picture: for readers without scripts, for print, for text.

An SVG with its sentence. It shows less than the view: requests, ``page_table``, the pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from ..text import say
from ..trace import ReqState, State, Trace
from .sentences import sentence, visible_text

HUES = ("#1d4ed8", "#b45309", "#0f766e", "#7e22ce", "#be185d", "#4d7c0f")
INK, DIM, LINE, FAINT = "#1b1f24", "#57606a", "#6b7280", "#d5dae1"
WIDTH, CELL_W, CELL_H, GAP, LEFT = 720, 26, 20, 6, 64
MOST_SLOTS, MOST_ROWS, MOST_COLS, MOST_CHARS = 128, 6, 24, 60


def picture(trace: Trace, index: int = 0) -> str:
    """An HTML figure of the state after frame ``index``; empty when there is no frame."""
    if not trace.frames:
        return ""
    state = trace.state_at(index)
    lines = _Lines()
    _draw_requests(lines, trace, state)
    _draw_table(lines, state)
    _draw_pool(lines, state)
    words = escape(f"{_where(trace, index)}: {sentence(trace, index, state)}")
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {lines.y}" role="img" aria-label="{words}" '
        f'style="max-width:{WIDTH}px;background:#fff" font-family="monospace" font-size="12">'
        f"{_HATCH}{''.join(lines.parts)}</svg><figcaption>{words}</figcaption></figure>"
    )


def pair_picture(traces: Sequence[Trace], start: int | None, labels: Sequence[str]) -> str:
    """Both runs where they first differ, or after frame ``start`` of the first."""
    at = [0 if start is None else start] * 2
    if start is None and (difference := traces[0].compare(traces[1])):
        at = [difference.left_frame or 0, difference.right_frame or 0]
    parts = []
    for trace, index, label in zip(traces, at, labels, strict=True):
        still = picture(trace, min(index, len(trace) - 1))
        parts.append(f"<p><b>{escape(label)}</b></p>{still}")
    return "".join(parts)


_HATCH = (
    '<pattern id="kvv-hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
    f'patternTransform="rotate(45)"><path d="M0 0V6" stroke="{LINE}"/></pattern>'
)


def _where(trace: Trace, index: int) -> str:
    frame = trace.frames[index]
    subs = sum(other["turn"] == frame["turn"] for other in trace.frames)
    return say(
        "control.where.long",
        turn=frame["turn"],
        turns=trace.frames[-1]["turn"],
        sub=frame["sub"] + 1,
        subs=subs,
    )


class _Lines:
    """Parts of an SVG, from the top down."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.y = 8

    def text(self, x: float, y: float, text: object, *, fill: str = INK, more: str = "") -> None:
        self.parts.append(f'<text x="{x}" y="{y}" fill="{fill}" {more}>{escape(str(text))}</text>')

    def heading(self, text: str, note: str = "") -> None:
        self.y += 16
        self.text(8, self.y, text, more='font-weight="bold"')
        self.text(8 + 8 * len(text) + 12, self.y, note, fill=DIM)
        self.y += 8

    def cell(self, x: float, y: float, text: object, style: str, fill: str) -> None:
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{CELL_W - 2}" height="{CELL_H - 2}" {style}/>'
        )
        middle = 'text-anchor="middle" font-size="11"'
        self.text(x + CELL_W / 2 - 1, y + 13, text, fill=fill, more=middle)


def _hue(state: State, uid: int) -> str:
    return HUES[list(state.reqs).index(uid) % len(HUES)]


def _draw_requests(lines: _Lines, trace: Trace, state: State) -> None:
    lines.heading(say("panel.requests"))
    for req in list(state.reqs.values())[-MOST_ROWS:]:
        lines.y += 16
        lines.text(8, lines.y, f"r{req.uid}", fill=_hue(state, req.uid), more='font-weight="bold"')
        lines.text(LEFT, lines.y, say(f"state.{req.state}"), fill=DIM)
        lines.text(LEFT + 72, lines.y, _tail(trace, req))
        values = {"cached": req.cached_len, "device": req.device_len, "max": req.max_device_len}
        lines.y += 14
        lines.text(LEFT + 72, lines.y, say("requests.lengths", **values), fill=DIM)
    lines.y += 6


def _tail(trace: Trace, req: ReqState) -> str:
    """The end of a request's text; tokens that share a character are joined first."""
    known = [trace.vocab.get(token, f"#{token}".encode()) for token in req.ids]
    whole = visible_text(b"".join(known)).replace("␣", " ")
    return whole if len(whole) <= MOST_CHARS else f"…{whole[1 - MOST_CHARS :]}"


def _draw_table(lines: _Lines, state: State) -> None:
    live = sorted(state.live(), key=lambda req: req.row or 0)[:MOST_ROWS]
    lines.heading(say("panel.page_table"), say("table.axis"))
    for req in live:
        lines.text(8, lines.y + 14, req.row, fill=DIM)
        lines.text(
            34, lines.y + 14, f"r{req.uid}", fill=_hue(state, req.uid), more='font-weight="bold"'
        )
        for position, slot in enumerate(state.row(req)[:MOST_COLS]):
            x = LEFT + position * CELL_W + position // state.page_size * GAP / 2
            cached = position < req.cached_len
            style = _style("own" if cached else "taken", _hue(state, req.uid))
            lines.cell(x, lines.y, slot, style, "#fff" if cached else INK)
        lines.y += CELL_H
    lines.y += 4


def _draw_pool(lines: _Lines, state: State) -> None:
    balance = state.balance()
    totals = say(
        "pool.totals",
        free=balance.free,
        tree=balance.tree,
        own=balance.in_flight,
        total=balance.total,
    )
    lines.heading(say("panel.pool"), totals)
    if balance.total > MOST_SLOTS:  # the totals must do
        return
    infos, bottom = state.slots(), 0.0
    for slot, x, y in _places(state, lines.y):
        info, bottom = infos[slot], y
        uid = info.holders[0][0] if info.holders else None
        hue = LINE if uid is None else _hue(state, uid)
        filled = info.state == "own" and info.holders[0][1] < state.reqs[uid or 0].cached_len
        kind = "own" if filled else "taken" if info.state == "own" else info.state
        lines.cell(x, y, slot, _style(kind, hue), "#fff" if filled else INK)
    lines.y = round(bottom) + CELL_H + 8


def _places(state: State, top: float) -> Iterator[tuple[int, float, float]]:
    """Slot, x, y: whole pages side by side."""
    page_w = state.page_size * CELL_W + GAP
    pages = max(1, (WIDTH - 16) // page_w)
    for slot in range(state.num_pages * state.page_size):
        page, offset = divmod(slot, state.page_size)
        line, column = divmod(page, pages)
        yield slot, 8 + column * page_w + offset * CELL_W, top + line * (CELL_H + 3)


def _style(kind: str, hue: str) -> str:
    """Patterns as in the view: filled own, outlined taken, double shared, hatched evictable."""
    return {
        "own": f'fill="{hue}"',
        "taken": f'fill="#fff" stroke="{hue}" stroke-width="2"',
        "locked": f'fill="{hue}" fill-opacity="0.2" stroke="{hue}"',
        "shared": f'fill="{FAINT}" stroke="{INK}" stroke-width="3"',
        "evictable": f'fill="url(#kvv-hatch)" stroke="{LINE}"',
        "lost": 'fill="#b42318"',
    }.get(kind, f'fill="#fff" stroke="{LINE}"')
