"""What stands behind the Makefile: reasons in one line, repair after an interruption, counts."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    return importlib.import_module(name)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("environment", monkeypatch)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("make", monkeypatch)


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        (
            "WARNING: Retrying ... NewConnectionError('...')\nERROR: No matching",
            "is there a network",
        ),
        ("OSError: [Errno 28] No space left on device", "no space is left"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM", "whose hash is pinned"),
        ("ERROR: No matching distribution found for torch==2.13.0", "no torch==2.13.0 for Python"),
        ("Traceback (most recent call last)", "pip.log"),
    ],
)
def test_pip_failures_are_named_in_one_line(
    environment: ModuleType, errors: str, reason: str
) -> None:
    said = environment.why_pip_failed(errors)
    assert reason in said
    assert "\n" not in said


def test_half_installed_packages_are_forgotten(
    environment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name in ("whole-1.0.dist-info", "half-1.0.dist-info", "~orch"):
        (packages / name).mkdir(parents=True)
    (packages / "whole-1.0.dist-info" / "RECORD").touch()
    monkeypatch.setattr(environment, "VENV", tmp_path)
    environment.drop_half_installed()
    assert [path.name for path in packages.iterdir()] == ["whole-1.0.dist-info"]


def test_full_disk_is_said_before_anything_is_made(
    environment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "PYTHON", tmp_path / "bin" / "python")
    monkeypatch.setattr(environment, "VENV", tmp_path)
    monkeypatch.setattr(environment, "NEEDED_GB", 10**9)
    with pytest.raises(environment.Absent, match=r"GB are free where .* about .* GB are needed"):
        environment.create()
    assert list(tmp_path.iterdir()) == []


def test_missing_venv_module_is_said(
    environment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "PYTHON", tmp_path / "bin" / "python")
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(environment.Absent, match="has no venv module"):
        environment.create()


def test_too_old_python_is_said(tmp_path: Path) -> None:
    """`sh .ci/python` with a Python that says it is 3.8."""
    old = tmp_path / "old python"
    old.write_text(
        '#!/bin/sh\ncase "$2" in *print*) echo 3.8 ;; *) exit 1 ;; esac\n', encoding="utf-8"
    )
    old.chmod(0o755)
    done = subprocess.run(
        ["sh", str(ROOT / ".ci" / "python"), "-c", "print('ran')"],
        env=os.environ | {"PYTHON": str(old)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Python 3.10 or newer is needed; found" in done.stderr
    assert "3.8" in done.stderr


def test_named_python_is_run(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", str(ROOT / ".ci" / "python"), "-c", "print('ran')"],
        env=os.environ | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "ran\n"


def test_closing_lines_of_pytest_and_node_are_counted(make: ModuleType) -> None:
    counts: dict[str, int] = {}
    for line in (
        "tests/test_a.py::test_three_passed_in_1.0s PASSED",
        "===== 1 failed, 12 passed, 2 skipped, 1 deselected in 3.21s =====",
        "5 passed, 1 error in 0.10s",
        "# pass 7",
        "ℹ fail 1",
    ):
        make.note_counts(line, counts)
    assert counts == {"failed": 3, "passed": 24, "skipped": 2}


def test_report_fails_with_any_stage_and_closes_with_the_counts(
    make: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    fine = make.Stage("unit tests", 2.0, 0, {"passed": 3})
    broken = make.Stage("lint and types", 1.0, 1)
    assert make.report([fine]) == 0
    assert make.report([broken, fine]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 0 failed, 0 skipped"


def test_every_target_of_the_makefile_is_known(make: ModuleType) -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {line.split(":")[0] for line in text.splitlines() if ": ## " in line}
    assert targets == {"help", *make.TARGETS}


def test_book_digest_follows_package_pages_and_settings(
    make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_config.yml", "_toc.yml", "book/index.md", "minisgl_lite/core.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1", encoding="utf-8")
    monkeypatch.setattr(make, "ROOT", tmp_path)
    seen = {make.book_digest()}
    for name in ("_config.yml", "_toc.yml", "book/index.md", "minisgl_lite/core.py"):
        (tmp_path / name).write_text("2", encoding="utf-8")
        seen.add(make.book_digest())
    assert len(seen) == 5
    for name in ("book/_build/x.html", "minisgl_lite/__pycache__/core.pyc"):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text("3", encoding="utf-8")
    assert make.book_digest() in seen
