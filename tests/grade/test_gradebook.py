"""The gradebook: unknown is empty and never 0, a formula is text, text is never markup."""

from __future__ import annotations

import csv
import io

from minisgl_lite.grade.gradebook import feedback_html, gradebook_csv, summary_html
from minisgl_lite.grade.job import Cell, Result
from minisgl_lite.grade.run import Row

NAMES = ['=HYPERLINK("x")', "+1", "-1", "@x", 'Doe, "Jane"', "学生", "x" * 200, "<script>"]


def row(name: str, score: float | None = 4.0, status: str = "graded", **more: object) -> Row:
    cell = Cell("page-slots", score, 4.0, **more)  # type: ignore[arg-type]
    return Row(name, Result(status, {"page-slots-check": cell}))


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_names_are_kept_and_formulas_are_text() -> None:
    lines = read(gradebook_csv([row(name) for name in NAMES]))
    assert [line["student"].removeprefix("'") for line in lines] == NAMES
    assert not any(line["student"].startswith(("=", "+", "-", "@")) for line in lines)


def test_an_unknown_score_is_empty() -> None:
    lost = Row("b", Result("error", reason="it is empty"))
    lines = read(gradebook_csv([row("a", 0.0), lost, row("c", None, "partial")]))
    assert [line["score"] for line in lines] == ["0", "", ""]
    assert [line["page-slots"] for line in lines] == ["0", "", ""]
    assert lines[1]["reason"] == "it is empty"


def test_the_same_results_give_the_same_bytes() -> None:
    rows = [row(name, reason="wrong") for name in NAMES]
    assert gradebook_csv(rows) == gradebook_csv(list(rows))
    assert summary_html(rows) == summary_html(list(rows))


def test_text_of_students_is_no_markup() -> None:
    nasty = row("<script>alert(1)</script>", reason="<img src=x onerror=alert(1)>")
    nasty.result.flags.append("<b>flag</b>")
    for page in (feedback_html(nasty), summary_html([nasty])):
        assert "<script" not in page and "<img" not in page and "<b>" not in page


def test_a_warning_stands_on_every_report() -> None:
    for page in (
        feedback_html(row("a"), warning="No sandbox"),
        summary_html([row("a")], warning="No sandbox"),
    ):
        assert "No sandbox" in page


def test_the_summary_counts_misconceptions_and_names_whom_to_look_at() -> None:
    rows = [row(f"s{n}", 0.0, reason="slot 8", misconception="m01") for n in range(3)]
    rows.append(Row("late", Result("timeout", reason="not done within 5 seconds")))
    page = summary_html(rows)
    assert "<td>m01</td><td>3</td>" in page
    assert "slot 8 (3)" in page
    assert "not done within 5 seconds" in page and "late" in page
