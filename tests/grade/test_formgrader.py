"""nbgrader's gradebook for the class: real names, marks by hand that stay, nothing that runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from nbgrader.api import Gradebook

from minisgl_lite.grade.course import Course, harmless
from minisgl_lite.grade.formgrader import merge
from minisgl_lite.grade.gradebook import feedback_html, gradebook_csv
from minisgl_lite.grade.job import Cell, Result
from minisgl_lite.grade.run import Row

from .submissions import NAME, ROOT, answered

STUDENT = "Núñez, José [1] 学生"
TEXT = "kv-buffer-axes-answer"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    root = tmp_path_factory.mktemp("nbgrader") / "course"
    return Course.create(root, [ROOT / "solutions" / f"{NAME}.ipynb"])


def row(course: Course, answer: str = "It settles the place.", **scores: float | None) -> Row:
    """A graded row: `scores` by exercise (with _ for -), and a text that a person is to mark."""
    cells = {}
    for grade_id, (points, by_hand) in course.worth().items():
        exercise = grade_id.rpartition("-")[0]
        score = None if by_hand else scores.get(exercise.replace("-", "_"), 0.0)
        cells[grade_id] = Cell(exercise, score, points, "", None, by_hand)

    def write(notebook: Any, by_id: dict[str, Any]) -> None:
        by_id[TEXT].source = answer

    notebooks = {f"{NAME}.ipynb": answered(write).decode()}
    unknown = any(cell.score is None and not cell.manual for cell in cells.values())
    return Row(STUDENT, Result("partial" if unknown else "graded", cells, notebooks=notebooks))


def mark_by_hand(out: Path, grade_id: str, mark: float, comment: str) -> None:
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as gradebook:
        grade = gradebook.find_grade(grade_id, NAME, "storage", STUDENT)
        grade.manual_score, grade.needs_manual_grade = mark, False
        gradebook.find_comment(grade_id, NAME, "storage", STUDENT).manual_comment = comment
        gradebook.db.commit()


def test_scores_stand_in_it_under_the_students_own_names(course: Course, tmp_path: Path) -> None:
    merge(tmp_path, course, "storage", [row(course, page_slots=4.0, pool_views=None)])
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        assert [student.id for student in gradebook.students] == [STUDENT]
        submission = gradebook.find_submission("storage", STUDENT)
        assert submission.score == 4
        pending = {
            grade.name
            for nb in submission.notebooks
            for grade in nb.grades
            if grade.needs_manual_grade
        }
        assert pending == {"pool-views-check", TEXT}
    assert (tmp_path / "autograded" / STUDENT / "storage" / f"{NAME}.ipynb").is_file()
    assert (tmp_path / "nbgrader_config.py").is_file()


def test_marks_and_comments_by_hand_survive_a_second_run(course: Course, tmp_path: Path) -> None:
    rows = [row(course, page_slots=4.0, pool_views=None)]
    merge(tmp_path, course, "storage", rows)
    mark_by_hand(tmp_path, TEXT, 3.0, "say why <b>")
    (again,) = merge(tmp_path, course, "storage", rows)
    cell = again.result.cells[TEXT]
    assert (cell.score, cell.manual, cell.comment) == (3.0, False, "say why <b>")
    assert again.result.score == 7
    assert "say why &lt;b&gt;" in feedback_html(again)
    assert rows[0].result.cells[TEXT].score is None, "what the jobs found stays as it was"
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        assert gradebook.find_submission("storage", STUDENT).score == 7


def test_an_answer_that_changed_is_to_be_marked_again(course: Course, tmp_path: Path) -> None:
    merge(tmp_path, course, "storage", [row(course)])
    mark_by_hand(tmp_path, TEXT, 3.0, "")
    (again,) = merge(tmp_path, course, "storage", [row(course, "Something else.")])
    cell = again.result.cells[TEXT]
    assert (cell.score, cell.manual, cell.reason) == (3.0, True, "it changed after it was marked")
    assert "kv-buffer-axes" in gradebook_csv([again]).split("\n")[1]


def test_a_mark_by_hand_settles_what_was_not_known(course: Course, tmp_path: Path) -> None:
    rows = [row(course, pool_views=None)]
    merge(tmp_path, course, "storage", rows)
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        grade = gradebook.find_grade("pool-views-check", NAME, "storage", STUDENT)
        grade.manual_score, grade.needs_manual_grade = 8.0, False
        gradebook.db.commit()
    (again,) = merge(tmp_path, course, "storage", rows)
    assert (again.result.status, again.result.score) == ("graded", 8)


def test_somebody_who_handed_in_nothing_is_a_student_without_a_submission(
    course: Course, tmp_path: Path
) -> None:
    merge(tmp_path, course, "storage", [Row("ada", Result("error", reason="it is empty"))])
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        assert [student.id for student in gradebook.students] == ["ada"]
        assert gradebook.assignment_submissions("storage") == []


def test_a_gradebook_of_another_assignment_is_left_alone(course: Course, tmp_path: Path) -> None:
    merge(tmp_path, course, "storage", [row(course)])
    before = (tmp_path / "gradebook.db").read_bytes()
    with pytest.raises(ValueError, match="use another --out"):
        merge(tmp_path, course, "radix", [row(course)])
    assert (tmp_path / "gradebook.db").read_bytes() == before


NASTY = """
[a](javascript:alert(1)) [b](javascript&#58;alert(1)) [c](javascript\\:alert(1))
[d](&#x6A;avascript:alert(1)) ![e](http://example.com/x.png) [f]

[f]: javascript\\:alert(1)

<script>alert(1)</script> <img src=x onerror=alert(1)> <javascript:alert(1)> 1 < 2 and <b>

$\\href{java
script:alert(1)}{x}$
"""


def nasty() -> Any:
    """A notebook as a kernel could send it that knows how nbconvert shows one."""
    new = nbformat.v4.new_output
    code = nbformat.v4.new_code_cell("1 < 2", id="code")
    code.outputs = [
        new("display_data", {"text/html": "<script>", "application/javascript": "x"}),
        new("display_data", {"image/png": 'AA"><script>', "image/svg+xml": "<svg onload=x>"}),
        new("display_data", {"image/png": "iVBORw0KGgo="}),
        new("execute_result", {"text/plain": "<script>2"}, execution_count=1),
        new("stream", name='x"><script>', text="<script>3"),
        new("error", ename="<script>", evalue="4", traceback=["<script>5"]),
    ]
    cells = [
        nbformat.v4.new_markdown_cell(NASTY, id="text"),
        nbformat.v4.new_raw_cell("<script>7</script>", id="raw"),
        code,
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    code.outputs[3]["execution_count"] = code["execution_count"] = "<script>6"
    code["id"] = 'x"><script>'
    cells[0]["attachments"] = {"x.svg": {"image/svg+xml": "<svg onload=x>"}}
    lexer = '"><script>8'
    notebook.metadata = nbformat.from_dict(
        {"language_info": {"name": lexer, "pygments_lexer": lexer}, "widgets": {"x": "<script>9"}}
    )
    return notebook


def page(notebook: Any) -> str:
    exporter = HTMLExporter()
    text, _ = exporter.from_notebook_node(notebook)
    return str(text[text.index("<main>") :])


RUNS = re.compile(r"<script|<svg|onerror=[^&]*>|href=[^>]*javascript|<img[^>]*http", re.I)


def test_what_a_grader_looks_at_does_not_run() -> None:
    notebook = harmless(nasty())
    nbformat.validate(notebook)
    shown = page(notebook)
    assert not RUNS.search(shown)
    assert "1 &lt; 2" in shown and "iVBORw0KGgo=" in shown and "&lt;script&gt;3" in shown
    text = json.dumps(notebook)
    assert "<script>8" not in text and "<script>9" not in text and "text/html" not in text
    assert "href{" in text and "\\\\href" not in text


def test_links_would_run_if_they_were_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minisgl_lite.grade.course.LINKS", ())
    assert RUNS.search(page(harmless(nasty())))
