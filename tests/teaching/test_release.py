"""Students' notebooks are cut from the solutions: the same bytes each time, no answer in them."""

from __future__ import annotations

import copy
import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from minisgl_lite.cli import main
from minisgl_lite.teaching.assignments import ASSIGNMENTS
from minisgl_lite.teaching.checks import EXERCISES, PUBLIC, load_exercises
from minisgl_lite.teaching.checks.exercise import Exercise, Template
from minisgl_lite.teaching.checks.expect import prediction
from minisgl_lite.teaching.checks.learner import Wrong
from minisgl_lite.teaching.release import check_source, release, secret_numbers

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "solutions").glob("*.ipynb"))


def test_the_committed_exercises_are_the_released_ones(tmp_path: Path) -> None:
    written = release(ROOT / "solutions", tmp_path)
    committed = {p.name: p.read_bytes() for p in (ROOT / "exercises").glob("*.ipynb")}
    assert {path.name: path.read_bytes() for path in written} == committed


def test_every_exercise_is_in_exactly_one_notebook() -> None:
    load_exercises()
    found: list[str] = []
    for path in SOURCES:
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.id.endswith("-answer"):
                found.append(cell.id.removesuffix("-answer"))
    assert sorted(found) == sorted(EXERCISES.supported_names())


def test_there_are_two_assignments_of_about_four_hours() -> None:
    exercises = load_exercises()
    kinds = Counter(exercises[name].kind for name in exercises.supported_names())
    assert (kinds["build"], kinds["find"], kinds["explain"]) == (8, 2, 2)
    assert kinds["predict"] >= 10
    for notebooks in ASSIGNMENTS.values():
        ids = [
            cell.id
            for name in notebooks
            for cell in nbformat.read(ROOT / "solutions" / f"{name}.ipynb", as_version=4).cells
        ]
        names = [name.removesuffix("-answer") for name in ids if name.endswith("-answer")]
        assert 220 <= sum(exercises[name].minutes for name in names) <= 260


def test_every_notebook_has_the_pages_cell_for_colab_below_its_title() -> None:
    page = nbformat.read(ROOT / "book" / "free-pages.ipynb", as_version=4)
    for path in (*SOURCES, *sorted((ROOT / "exercises").glob("*.ipynb"))):
        cell = nbformat.read(path, as_version=4).cells[1]
        assert (cell.id, cell.metadata.tags, cell.source) == (
            "colab", ["remove-cell"], page.cells[1].source,
        )  # fmt: skip


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_no_line_of_an_answer_reaches_the_student(source: Path, tmp_path: Path) -> None:
    (written,) = release(source.parent, tmp_path, [source.stem])
    text = written.read_text(encoding="utf-8")
    secret = False
    lines = 0
    for cell in nbformat.read(source, as_version=4).cells:
        for line in cell.source.split("\n"):
            if "BEGIN SOLUTION" in line or "BEGIN MARK SCHEME" in line:
                secret = True
            elif "END SOLUTION" in line or "END MARK SCHEME" in line:
                secret = False
            elif secret and len(line.strip()) > 20:
                lines += 1
                assert line.strip() not in text
    assert lines > 0


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_stubs_name_their_exercise(source: Path, tmp_path: Path) -> None:
    (written,) = release(source.parent, tmp_path, [source.stem])
    for cell in nbformat.read(written, as_version=4).cells:
        if cell.id.endswith("-answer") and "raise NotImplementedError" in cell.source:
            assert f'NotImplementedError("{cell.id.removesuffix("-answer")}")' in cell.source


def broken(change: Any) -> Any:
    notebook = copy.deepcopy(nbformat.read(ROOT / "solutions/pages-and-slots.ipynb", as_version=4))
    cells = {cell.id: cell for cell in notebook.cells}
    change(notebook, cells)
    return notebook


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda n, c: c["page-slots-check"].update(id="x"), "has the grade_id"),
        (lambda n, c: c["page-slots-check"].metadata.nbgrader.update(points=3), "worth 3 points"),
        (lambda n, c: n.cells.remove(c["page-slots-check"]), "lacks its cells ['check']"),
        (lambda n, c: n.cells.append(c["page-slots-check"]), "two cells 'page-slots-check'"),
        (
            lambda n, c: (
                c["page-slots-text"].metadata.nbgrader.update(grade_id="paging-text"),
                c["page-slots-text"].update(id="paging-text"),
            ),
            "'paging-text' is not",
        ),
        (
            lambda n, c: c["kv-buffer-axes-answer"].update(
                source="### BEGIN SOLUTION\n1\n### END SOLUTION\n### BEGIN MARK SCHEME\n2"
            ),
            "its marking guide must end before END SOLUTION",
        ),
    ],
)
def test_a_source_that_breaks_a_rule_is_named(change: Any, words: str) -> None:
    with pytest.raises(ValueError) as error:
        check_source(broken(change), "solutions/x.ipynb")
    assert words in str(error.value)


def test_a_solution_that_is_not_marked_stops_the_release(tmp_path: Path) -> None:
    notebook = broken(lambda n, c: c["set-up"].update(source="# the MARK SCHEME: 3"))
    nbformat.write(notebook, tmp_path / "x.ipynb")
    with pytest.raises(ValueError, match="still has"):
        release(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_says_what_it_wrote(tmp_path: Path, capsys: Any) -> None:
    target = str(tmp_path / "out")
    solutions = str(ROOT / "solutions")
    assert (
        main(["release", "pages-and-slots", "--solutions", solutions, "--exercises", target]) == 0
    )
    assert capsys.readouterr().out == f"{target}/pages-and-slots.ipynb\n"
    assert main(["release", "nothing", "--solutions", solutions, "--exercises", target]) == 2
    assert "there is no notebook" in capsys.readouterr().err


# ---- questions from templates ------------------------------------------------------------------


def templates() -> list[str]:
    return [n for n in load_exercises().supported_names() if EXERCISES[n].template is not None]


def assert_one_answer_each(exercise: Exercise, count: int) -> None:
    """For ``count`` secrets: what is asked tells what is right, and no other answer passes."""
    template = exercise.template
    assert template is not None
    right: dict[str, Any] = {}  # by all that the learner is given
    given: list[Any] = []
    for number in range(count):
        token = secret_numbers(f"secret number {number:06}".encode())(exercise.name)
        task = template.task(token)
        answer, text = template.solve(task), template.text(task)
        if number % 10 == 0:
            assert template.task(token) == task and template.solve(task) == answer
        assert not re.search(r"\{\w*\}", text)  # a field that nobody filled
        if template.run is not None:
            text += json.dumps(template.run(task).to_dict(wall=False))
        assert right.setdefault(text, answer) == answer, "one question, two answers"
        prediction(copy.deepcopy(answer), answer, exercise)
        if given and given[-1] != answer:
            with pytest.raises(Wrong):
                prediction(given[-1], answer, exercise)
        given.append(answer)
    often = Counter(map(repr, given))
    # Whoever has seen another's answer can't hope for it.
    assert len(often) > 5 and often.most_common(1)[0][1] <= count / 4


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("name", templates())
def test_a_template_has_one_answer_for_any_secret_and_answers_differ(name: str, count: int) -> None:
    assert_one_answer_each(EXERCISES[name], count)


@pytest.mark.parametrize(
    ("left_out", "words"),
    [("prompt", "two answers"), ("output", "two answers"), (None, "> 5")],
)
def test_a_question_that_does_not_say_all_or_always_the_same_is_found(
    left_out: str | None, words: str
) -> None:
    exercise = EXERCISES["predict-waste"]
    template = exercise.template
    assert template is not None
    draw, text, solve, _ = vars(template).values()
    poor = Template(
        lambda rng: draw(random.Random(rng.randrange(3))) if left_out is None else draw(rng),
        lambda task: str(task) if left_out is None else text(task | {left_out: "some"}),
        solve,
    )
    if left_out is None:  # three tasks for all
        poor = replace(poor, text=lambda task: f"{task} {random.random()}")
    with pytest.raises(AssertionError, match=words):
        assert_one_answer_each(replace(exercise, template=poor), 400)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_sources_ask_with_the_public_numbers(source: Path) -> None:
    for cell in nbformat.read(source, as_version=4).cells:
        name = cell.id.removesuffix("-text")
        if cell.id.endswith("-text") and name in templates():
            template = EXERCISES[name].template
            assert template is not None
            assert cell.source == template.text(template.task(PUBLIC)).strip()


def test_a_course_has_numbers_of_its_own_and_so_has_each_student(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("0123456789abcdef0123456789abcdef\n")
    (tmp_path / "roster").write_text("ada\nJosé Núñez\n\n")
    common = ["--solutions", str(ROOT / "solutions"), "--secret", str(tmp_path / "secret")]
    for folder in ("one", "two"):
        target = ["--exercises", str(tmp_path / folder)]
        assert main(["release", "pages-and-slots", *common, *target]) == 0
    texts = [(tmp_path / f / "pages-and-slots.ipynb").read_text() for f in ("one", "two")]
    assert texts[0] == texts[1] != (ROOT / "exercises/pages-and-slots.ipynb").read_text()
    per = ["--per-student", "--roster", str(tmp_path / "roster")]
    assert main(["release", "pages-and-slots", *common, *per, "--exercises", str(tmp_path)]) == 0
    names = ("ada", "José Núñez")
    texts += [(tmp_path / name / "pages-and-slots.ipynb").read_text() for name in names]
    assert len(set(texts)) == 3
    assert all('check(\\"predict-expansion\\", \\"' in text for text in texts)


@pytest.mark.parametrize(
    ("secret", "roster", "options", "words"),
    [
        ("short", "a", [], "5 bytes, 16 are needed"),
        ("x" * 16, "a\nb\na", ["--per-student", "--roster", "{}/roster"], "'a' stands there twice"),
        ("x" * 16, "../a", ["--per-student", "--roster", "{}/roster"], "name of a folder"),
        ("x" * 16, "a", ["--per-student"], "--per-student needs --secret"),
    ],
)
def test_bad_secrets_and_rosters_are_named(
    tmp_path: Path, capsys: Any, secret: str, roster: str, options: list[str], words: str
) -> None:
    (tmp_path / "secret").write_text(secret)
    (tmp_path / "roster").write_text(roster)
    options = [option.format(tmp_path) for option in options]
    target = ["--exercises", str(tmp_path / "out"), "--solutions", str(ROOT / "solutions")]
    assert main(["release", *target, "--secret", str(tmp_path / "secret"), *options]) == 2
    assert words in capsys.readouterr().err
