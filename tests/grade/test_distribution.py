"""The package a stranger's code imports: whole enough to run, without any answer."""

from __future__ import annotations

import json
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


CALL_ALL = f"""
import importlib, inspect, json
told = {{}}
for name in {COUNTERPARTS!r}:
    module, _, path = name.partition(":")
    thing = importlib.import_module(module)
    for part in path.split("."):
        thing = getattr(thing, part)
    parameters = inspect.signature(thing).parameters.values()
    placed = [None for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    try:
        thing(*placed, **{{p.name: None for p in parameters if p.kind is p.KEYWORD_ONLY}})
    except Exception as error:
        told[name] = f"{{type(error).__name__}} {{error}}"
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(distribution: Path) -> dict[str, str]:
    """What each counterpart raises when it is called, all in one process."""
    found: dict[str, str] = json.loads(run(distribution, CALL_ALL))
    return found


@pytest.mark.parametrize("counterpart", COUNTERPARTS)
def test_a_counterpart_refuses_and_names_itself(told: dict[str, str], counterpart: str) -> None:
    assert told[counterpart] == f"CounterpartUsed {counterpart.partition(':')[2]}"


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
