"""From results to what an instructor opens: a CSV, a page per student, a page for the class."""

from __future__ import annotations

import csv
import html
import io
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..teaching.checks import EXERCISES, load_exercises
from ..teaching.misconceptions import MISCONCEPTIONS
from .job import Cell
from .run import Row

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A spreadsheet takes a cell that begins so for a formula, somewhere in the world."""


def write_whole(path: Path, text: str) -> None:
    """Replace a file at once: it is the old one or the new one, never a part."""
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(text, encoding="utf-8", newline="")
    os.replace(scratch, path)


def _safe(value: object) -> str:
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return f"'{text}" if text.startswith(FORMULA) or text.lstrip().startswith(FORMULA) else text


def gradebook_csv(rows: Sequence[Row], late: Mapping[str, str] | None = None) -> str:
    """One line per student. An unknown score is empty, never 0.

    ``late``: by student, how much after the deadline they handed in (``late.lateness``).
    """
    exercises = sorted({cell.exercise for row in rows for cell in row.result.cells.values()})
    out = io.StringIO()
    # All quoted: where a semicolon ends a cell, one within a flag does not begin a formula.
    table = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    head = ["student", "status", "score", "max"]
    tail = ["late", "manual_pending", "flags", "reason", "package", "assignment", "secret"]
    table.writerow([*head, *exercises, *tail])
    for row in rows:
        result = row.result
        known: dict[str, float | None] = {}
        for cell in result.cells.values():
            before = known.get(cell.exercise, 0.0)
            known[cell.exercise] = (
                None if before is None or cell.score is None else before + cell.score
            )
        pending = [cell.exercise for cell in result.cells.values() if cell.manual]
        values = [row.student, result.status, result.score, result.max_score if known else None]
        values += [known.get(exercise) for exercise in exercises]
        values += [(late or {}).get(row.student, ""), " ".join(pending)]
        values += ["; ".join(result.flags), result.reason]
        values += [row.origin.get(part) for part in ("package", "assignment", "secret")]
        table.writerow([_safe(value) for value in values])
    return out.getvalue()


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem;
border-bottom: 1px solid #8886; vertical-align: top; } .flag { font-weight: 600; }
:root { color-scheme: light dark; } .bar { background: #2b6cb0; height: .8rem; min-width: 1px; }
"""


def _page(title: str, body: Sequence[str]) -> str:
    lines = [
        "<!doctype html>",
        f'<html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style>",
        f"<h1>{html.escape(title)}</h1>",
        *body,
    ]
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    lines = ["<table>", f"<tr>{cells}</tr>"]
    for row in rows:
        cells = "".join(f"<td>{_shown(value)}</td>" for value in row)
        lines.append(f"<tr>{cells}</tr>")
    return [*lines, "</table>"]


def _shown(value: object) -> str:
    """As markup; a share with a bar of its length."""
    if isinstance(value, _Share):
        bar = f'<div class="bar" style="width:{100 * value.part / value.whole:.0f}%"></div>'
        return f"{value.part} of {value.whole}{bar}"
    return html.escape(_plain(value))


def _plain(value: object) -> str:
    return (
        "not known" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    )


def feedback_html(row: Row, *, warning: str = "") -> str:
    """What a student gets back: for each exercise the points, what differs first, what is often
    believed there, the page to read."""
    load_exercises()
    result = row.result
    body = [f"<p class=flag>{html.escape(warning)}</p>"] if warning else []
    if result.score is not None:
        body.append(f"<p>{result.score:g} of {result.max_score:g} points.</p>")
    if result.reason:
        body.append(f"<p>{html.escape(result.reason)}</p>")
    lines = []
    for grade_id, cell in result.cells.items():
        page = EXERCISES[cell.exercise].page if cell.exercise in EXERCISES else ""
        said = "to be marked by hand" if cell.manual else cell.reason
        if not said and grade_id.endswith("-check"):
            said = "done" if cell.score == cell.max_score else "not done yet"
        said = " ".join(
            part for part in (said, _believed(cell.misconception), cell.comment) if part
        )
        lines.append((grade_id.rpartition("-")[0], cell.score, cell.max_score, said, page))
    if lines:
        body += _table(["exercise", "points", "of", "what the check found", "to read"], lines)
    return _page(f"Feedback for {row.student}", body)


def _believed(tag: str | None) -> str:
    """What may stand behind a wrong answer, in a sentence."""
    return f"(Often believed, and not so: {MISCONCEPTIONS[tag]}.)" if tag in MISCONCEPTIONS else ""


def summary_html(rows: Sequence[Row], *, warning: str = "") -> str:
    """The class at a glance: how each exercise went, what was believed wrongly, whom to look at."""
    body = [f"<p class=flag>{html.escape(warning)}</p>"] if warning else []
    statuses = Counter(row.result.status for row in rows)
    body.append(f"<p>{len(rows)} students: {html.escape(_counts(statuses))}.</p>")
    body.append("<h2>Exercises, those that most failed first</h2>")
    cells = [cell for row in rows for cell in row.result.cells.values()]
    body += _table(
        ["exercise", "below full marks", "points (students)", "mean", "most often"],
        _exercises(cells),
    )
    wrong = Counter(c.misconception for c in cells if c.misconception)
    if wrong:
        body.append("<h2>Misconceptions</h2>")
        told = [(tag, count, MISCONCEPTIONS.get(tag, "")) for tag, count in wrong.most_common()]
        body += _table(["tag", "students", "what is believed"], told)
    flagged = [(row.student, "; ".join(row.result.flags)) for row in rows if row.result.flags]
    if flagged:
        body.append("<h2>To look at</h2>")
        body += _table(["student", "why"], flagged)
    troubled = [
        (row.student, row.result.status, row.result.reason)
        for row in rows
        if row.result.status != "graded"
    ]
    if troubled:
        body.append("<h2>Not graded whole</h2>")
        body += _table(["student", "status", "reason"], troubled)
    return _page("Summary", body)


class _Share(NamedTuple):
    """So many of so many."""

    part: int
    whole: int


def _exercises(cells: Sequence[Cell]) -> list[tuple[object, ...]]:
    """A line for each exercise: how many got what, and what was said most often."""
    by_name: dict[str, list[Cell]] = {}
    for cell in cells:
        by_name.setdefault(cell.exercise, []).append(cell)
    lines: list[tuple[_Share, str, tuple[object, ...]]] = []
    for name, all_of_it in by_name.items():
        known = [cell.score for cell in all_of_it if cell.score is not None]
        below = sum(cell.score not in (None, cell.max_score) for cell in all_of_it)
        spread = [f"{score:g} ({n})" for score, n in sorted(Counter(known).items())]
        if lost := len(all_of_it) - len(known):
            spread.append(f"not known ({lost})")
        said = Counter(cell.reason for cell in all_of_it if cell.reason).most_common(1)
        often = f"{said[0][0]} ({said[0][1]})" if said else ""
        mean = sum(known) / len(known) if known else None
        share = _Share(below, len(all_of_it))
        lines.append((share, name, (name, share, ", ".join(spread), mean, often)))
    lines.sort(key=lambda line: (-line[0].part / line[0].whole, line[1]))
    return [line for _, _, line in lines]


def _counts(statuses: Counter[str]) -> str:
    return ", ".join(f"{number} {status}" for status, number in sorted(statuses.items()))
