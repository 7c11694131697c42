"""``minisgl-lite record`` called in this process: what it writes, says, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from minisgl_lite.cli import main
from minisgl_lite.teaching.record import record_script
from minisgl_lite.trace import Trace

TOY = "from minisgl_lite.toy import Toy\n\ntoy = Toy()\ntoy.add('a b c', says='d e')\ntoy.run()\n"


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def record(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """``record(*args)`` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> Ran:
        try:
            code = main(["record", *args])
        except SystemExit as exit_:  # argparse's own errors
            code = int(exit_.code or 0)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


def test_a_script_becomes_a_trace_that_can_be_loaded(record: Run) -> None:
    Path("mine.py").write_text(TOY)
    ran = record("mine.py")
    assert ran == (0, "mine.json.gz: 11 frames, 8 pages of 4 tokens\n", "")
    assert Trace.load("mine.json.gz").digest() == record_script("mine.py").trace.digest()
    assert record("mine.py", "-o", "other.json").code == 0
    assert Trace.load("other.json").digest() == Trace.load("mine.json.gz").digest()


def test_file_names_tell_the_sides_apart(record: Run) -> None:
    assert record("stale-rows").code == 0
    assert record("stale-rows", "--behaviour", "stale-rows").code == 0
    assert record("stale-rows", "--behaviour", "stale-rows", "--behaviour", "set-order").code == 0
    assert record("stale-rows", "--behaviour", "all").code == 0
    assert sorted(path.name for path in Path().iterdir()) == [
        "stale_rows.all.json.gz",
        "stale_rows.json.gz",
        "stale_rows.stale-rows+set-order.json.gz",
        "stale_rows.stale-rows.json.gz",
    ]
    ours, theirs = Trace.load("stale_rows.json.gz"), Trace.load("stale_rows.all.json.gz")
    assert ours.compare(theirs) is not None


def test_what_the_sanitizer_finds_is_said_and_recorded(record: Run) -> None:
    ran = record("stale-rows", "--behaviour", "stale-rows", "--check")
    assert ran.code == 0 and ran.err == ""
    _, found = ran.out.splitlines()
    assert found.startswith("sanitizer: step 1: page 3 (slot 12) was freed, but r2 lives")
    assert found.endswith("more)")
    trace = Trace.load("stale_rows.stale-rows.json.gz")
    assert trace.frames[trace.find("fault")]["fault"]["slot"] == 12
    assert record("stale-rows", "--check").out.count("\n") == 1


def test_an_error_that_ended_the_run_is_said(record: Run) -> None:
    ran = record("token-wise-admission", "--behaviour", "token-wise-admission")
    assert ran.code == 0
    assert "\nthe run was ended by RuntimeError: can't evict 4 tokens" in ran.out
    assert len(Trace.load("token_wise_admission.token-wise-admission.json.gz")) > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TOY + "1 / 0\n", "mine.py, line 6: ZeroDivisionError: division by zero"),
        (TOY + "assert toy.text(1) == 'x', 'no x'\n", "mine.py, line 6: AssertionError: no x"),
        (TOY + "toy.add('a', uid=1)\ntoy.add('a', uid=1)\n", "mine.py, line 7: ValueError: req"),
        ("def\n", "mine.py, line 1: SyntaxError"),
        ("import sys\nsys.exit(3)\n", "mine.py ended with sys.exit(3)"),
        ("", "mine.py makes 0 Toys; a script plays one."),
    ],
)
def test_an_error_of_the_script_is_said_in_one_line(record: Run, text: str, said: str) -> None:
    Path("mine.py").write_text(text)
    ran = record("mine.py")
    assert ran.code == 2 and ran.out == ""
    assert ran.err.startswith(f"minisgl-lite record: error: {said}")
    assert ran.err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["mine.py"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nothing.py"], "there is no script nothing.py; the package's own are: cold-partial-hits"),
        (["stale-rows", "--behaviour", "stale"], "unknown published behaviour 'stale'; known: "),
        (["stale-rows", "-o", "nowhere/x.json"], "--out nowhere/x.json: name a file in a folder"),
        (["stale-rows", "-o", "."], "--out .: name a file"),
        (["stale-rows", "--minisgl", "."], ". holds no mini-sglang"),
        (
            ["stale-rows", "--minisgl", ".", "--behaviour", "all"],
            "argument --behaviour: not allowed with argument --minisgl",
        ),
        ([], "the following arguments are required: SCRIPT"),
    ],
)
def test_bad_input_is_said_in_one_line(record: Run, args: list[str], said: str) -> None:
    ran = record(*args)
    assert ran.code == 2 and ran.out == ""
    assert ran.err.startswith(f"minisgl-lite record: error: {said}")
    assert ran.err.count("\n") == 1
    assert list(Path().iterdir()) == []


def test_another_packages_folder_is_no_clone_that_runs(record: Run) -> None:
    """Without a commit that can be read, and without the modules: one line, no traceback."""
    folder = Path("clone/minisgl/scheduler")
    folder.mkdir(parents=True)
    (folder / "scheduler.py").write_text("import a_module_that_is_not_here\n")
    ran = record("stale-rows", "--minisgl", "clone")
    assert ran.code == 2 and ran.err.count("\n") == 1
