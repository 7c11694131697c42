"""The package a stranger's code imports: whole enough to run, without any answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minisgl_lite.grade.distribution import without, write_distribution
from minisgl_lite.teaching.checks import EXERCISES, load_exercises

load_exercises()
COUNTERPARTS = sorted(
    {c for name in EXERCISES.supported_names() for c in EXERCISES[name].counterparts}
)


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learner")
    write_distribution(folder, COUNTERPARTS)
    return folder


def run(folder: Path, code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    return (result.stdout + result.stderr).strip()


def test_it_runs_what_no_exercise_replaces(distribution: Path) -> None:
    code = "import minisgl_lite, torch; from minisgl_lite.teaching.checks import check; print('ok')"
    assert run(distribution, code) == "ok"


@pytest.mark.parametrize("counterpart", COUNTERPARTS)
def test_a_counterpart_refuses_and_names_itself(distribution: Path, counterpart: str) -> None:
    module, _, path = counterpart.partition(":")
    owner = path.rpartition(".")[0]
    code = f"""
import importlib, inspect
thing = importlib.import_module({module!r})
for part in {path.split(".")!r}:
    thing = getattr(thing, part)
try:
    thing(*[None] * len([p for p in inspect.signature(thing).parameters.values()
                        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]),
          **{{p.name: None for p in inspect.signature(thing).parameters.values()
             if p.kind is p.KEYWORD_ONLY}})
except Exception as error:
    print(type(error).__name__, error)
"""
    assert owner is not None
    assert run(distribution, code) == f"CounterpartUsed {path}"


def test_no_check_and_no_grader_is_in_it(distribution: Path) -> None:
    package = distribution / "minisgl_lite"
    assert not (package / "grade").exists()
    assert not (package / "teaching" / "release.py").exists()
    assert [p.name for p in (package / "teaching" / "exercises").iterdir()] == ["__init__.py"]


def test_a_name_that_is_no_function_is_refused() -> None:
    source = "class A:\n    x = 1\n    def f(self):\n        return 1\n"
    assert "raise CounterpartUsed('A.f')" in without(source, "A.f")
    for path in ("A", "A.x", "A.g", "f"):
        with pytest.raises(ValueError, match=r"taken? away"):
            without(source, path)
