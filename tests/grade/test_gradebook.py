"""The gradebook: unknown is empty and never 0, a formula is text, text is never markup."""

from __future__ import annotations

import csv
import html
import io
import re
from pathlib import Path

import pytest

from minisgl_lite.grade.gradebook import feedback_html, gradebook_csv, summary_html
from minisgl_lite.grade.job import Cell, Result
from minisgl_lite.grade.run import Row
from minisgl_lite.teaching.misconceptions import MISCONCEPTIONS

ROOT = Path(__file__).resolve().parents[2]
BAR = '<div class="bar" style="width:{}%"></div>'
NAMES = ['=HYPERLINK("x")', "+1", "-1", "@x", 'Doe, "Jane"', "学生", "x" * 200, "<script>"]
NAMES += ["\t=1", "\r=1", "\n=1", " =1", "＝1", "a;=1", "طالب", "[1]", "two  spaces "]


def row(name: str, score: float | None = 4.0, status: str = "graded", **more: object) -> Row:
    cell = Cell("page-slots", score, 4.0, **more)  # type: ignore[arg-type]
    return Row(name, Result(status, {"page-slots-check": cell}))


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_names_are_kept_and_formulas_are_text() -> None:
    lines = read(gradebook_csv([row(name) for name in NAMES]))
    assert [line["student"].removeprefix("'") for line in lines] == NAMES
    signs = ("=", "+", "-", "@", "＝", "\t", "\r", "\n")
    assert not any(line["student"].lstrip(" ").startswith(signs) for line in lines)


def test_flags_and_reasons_begin_no_formula_either() -> None:
    odd = row("ada", reason="wrong")
    odd.result.flags, odd.result.reason = ["=1+1.ipynb is no part", "@x"], "\t=cmd"
    text = gradebook_csv([odd])
    (line,) = read(text)
    assert (line["flags"], line["reason"]) == ("'=1+1.ipynb is no part; @x", "'\t=cmd")
    # Where a semicolon parts cells, a quoted one is still one.
    assert next(csv.reader(io.StringIO(text.split("\n")[1]), delimiter=";"))[0].startswith("ada")
    assert all(cell.startswith('"') for cell in text.split("\n")[0].split(","))


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
    page = html.unescape(summary_html(rows))
    assert f"<td>m01</td><td>3</td><td>{MISCONCEPTIONS['m01']}</td>" in page
    believed = f"(Often believed, and not so: {MISCONCEPTIONS['m01']}.)"
    assert believed in html.unescape(feedback_html(rows[0]))
    assert "Often believed" not in feedback_html(row("right"))
    assert "slot 8 (3)" in page
    assert "not done within 5 seconds" in page and "late" in page


def test_the_summary_tells_how_each_exercise_went_the_most_failed_first() -> None:
    def student(name: str, **scores: float | None) -> Row:
        cells = {f"{e}-check": Cell(e, score, 4.0) for e, score in scores.items()}
        return Row(name, Result("graded", cells))

    rows = [student("a", easy=4.0, hard=0.0), student("b", easy=4.0, hard=4.0)]
    rows += [student("c", easy=2.5, hard=None), student("d", easy=4.0, hard=0.0)]
    rows[0].result.cells["text-answer"] = Cell("text", None, 4.0, manual=True)
    lines = re.findall("<tr><td>(.*)</td></tr>", summary_html(rows))
    assert [line.split("</td><td>") for line in lines] == [
        ["hard", f"2 of 4{BAR.format(50)}", "0 (2), 4 (1), not known (1)", "1.33333", ""],
        ["easy", f"1 of 4{BAR.format(25)}", "2.5 (1), 4 (3)", "3.625", ""],
        ["text", f"0 of 1{BAR.format(0)}", "not known (1)", "not known", ""],
    ]


def test_the_books_way_back_to_moodle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["=José_Núñez, Ada_101_assignsubmission_file_", "学生_7_assignsubmission_file_"]
    lost = Row("Bob_8_assignsubmission_file_", Result("error", reason="it is empty"))
    (tmp_path / "graded").mkdir()
    text = gradebook_csv([row(names[0], 4.0), row(names[1], 0.0), lost])
    (tmp_path / "graded" / "gradebook.csv").write_text(text, encoding="utf-8")
    sheet = "\ufeffIdentifier,Full name,Grade\n"
    sheet += "".join(f"Participant {n},x,\n" for n in (7, 8, 9, 101))
    (tmp_path / "worksheet.csv").write_text(sheet, encoding="utf-8")
    page = (ROOT / "book" / "grading.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(page.split("```python\n")[1].split("```")[0], {})
    upload = read((tmp_path / "upload.csv").read_text(encoding="utf-8"))
    assert [line["Grade"] for line in upload] == ["0", "", "", "4"]
