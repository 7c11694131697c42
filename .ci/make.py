"""What the Makefile's targets do. Run as `sh .ci/python .ci/make.py TARGET`."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import environment
from environment import PYTHON, ROOT, Absent

BUILD = ROOT / "book" / "_build"
FOR_TEACHERS = os.environ.get("SOLUTIONS") == "1"  # book/_ext/instructors.py reads it, too
OUTPUT = BUILD / "instructors" if FOR_TEACHERS else BUILD.parent
PAGE = OUTPUT / "_build" / "html" / "index.html"
BUILT_FROM = OUTPUT / "_build" / ".inputs"
CACHES = (".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache")
IN_CI = os.environ.get("CI") == "true"

# Its command ends a failed build with a traceback of its own; what went wrong stands above that.
JUPYTER_BOOK = """
import sys
from jupyter_book.cli.main import main
try:
    main()
except RuntimeError:
    sys.exit(1)
"""

# Markers of tests that have a stage or a target of their own.
WITH_BROWSER = "browser or lab"
OF_THE_BOOK = "built"  # needs the book, and no browser
LEFT_OUT = "exhaustive or fuzz or grading"
MOST_WORKERS = 4  # of pytest at once; each holds a model
WORKLOADS = (
    *("decode", "prefill", "stream", "host", "load"),
    *("memory", "parts", "quality", "context", "turn"),
)
CELL_TIMEOUT = 300  # seconds; a cell should need 60 at most, on a machine that is not busy


def call(command: Sequence[str | Path], **environ: str) -> int:
    """Run in the repository's root, inside .venv, with output as it comes."""
    sys.stdout.flush()
    return subprocess.run(
        [str(part) for part in command], cwd=ROOT, env=environment.environ() | environ, check=False
    ).returncode


# ---- the book --------------------------------------------------------------------------------


def book_files() -> Iterator[Path]:
    """Every file that can change the built book."""
    yield from (ROOT / "_config.yml", ROOT / "_toc.yml")
    folders = ["book", "exercises", "minisgl_lite", *(["solutions"] if FOR_TEACHERS else [])]
    for folder in (ROOT / name for name in folders):
        for path in sorted(folder.rglob("*")):
            made = {"_build", "__pycache__", ".ipynb_checkpoints"} & set(path.parts)
            if path.is_file() and not made:
                yield path


def book_digest() -> str:
    digest = hashlib.sha256(environment.digest().encode())
    for path in book_files():
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def build_book(*, fresh: bool) -> int:
    """Build the book when something it is made of changed; `fresh` executes every page anew."""
    wanted = book_digest()
    built = BUILT_FROM.read_text(encoding="utf-8") if BUILT_FROM.is_file() else None
    if built == wanted and PAGE.is_file() and not fresh:
        print("The book is up to date.")
        return 0
    if fresh:
        shutil.rmtree(OUTPUT / "_build", ignore_errors=True)
    BUILT_FROM.unlink(missing_ok=True)
    print("Building the book: executing its notebooks, then writing the pages", flush=True)
    options = ["build", ".", "--path-output", str(OUTPUT.relative_to(ROOT))]
    options += ["-q", "-W", "-n", "--keep-going"]
    status = call([PYTHON, "-c", JUPYTER_BOOK, *options])
    if status == 0:
        BUILT_FROM.write_text(wanted, encoding="utf-8")
    else:
        # What Sphinx remembers of a failed build would hide its warnings from the next one.
        shutil.rmtree(OUTPUT / "_build" / ".doctrees", ignore_errors=True)
        print("make: the book was not built; the lines above say why", file=sys.stderr)
    return status


def book(_: Sequence[str]) -> int:
    with environment.alone():
        environment.ensure()
        status = build_book(fresh=False)
    if status == 0:
        print(f"\nOpen this page: {PAGE.as_uri()}")
    return status


def lab(arguments: Sequence[str]) -> int:
    with environment.alone():
        environment.ensure()
    print("Opening JupyterLab on the book; Ctrl-C twice ends it", flush=True)
    options = [
        f"--ServerApp.root_dir={ROOT}",
        "--LabApp.default_url=/lab/tree/book",
        "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    return call([PYTHON, "-m", "jupyterlab", *options, *arguments])


# ---- the tests -------------------------------------------------------------------------------


@dataclass
class Stage:
    """One part of `make test`: what it ran, how long it took, how it ended."""

    name: str
    seconds: float = 0.0
    status: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    note: str = ""


# pytest's closing line, and node's.
PYTEST_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")
PYTEST_LINE = re.compile(
    r"^=* ?\d+ (passed|failed|skipped|deselected|errors?|xfailed).* in [\d.]+s"
)
NODE_LINE = re.compile(r"^(?:#|ℹ) (pass|fail|skipped) (\d+)")
COUNTED_AS = {"pass": "passed", "fail": "failed", "error": "failed", "errors": "failed"}


def note_counts(line: str, counts: dict[str, int]) -> None:
    """Add the numbers of a runner's closing line to `counts`."""
    found: list[tuple[str, str]] = []
    if PYTEST_LINE.match(line):
        found = PYTEST_COUNT.findall(line)
    elif match := NODE_LINE.match(line):
        found = [(match.group(2), match.group(1))]
    for number, word in found:
        word = COUNTED_AS.get(word, word)
        counts[word] = counts.get(word, 0) + int(number)


def watched(command: Sequence[str | Path], counts: dict[str, int], **environ_too: str) -> int:
    """Like `call`, and the numbers of tests go to `counts`."""
    environ = environment.environ() | {
        "HF_HUB_OFFLINE": "1",  # no test downloads
        "PYTHONUNBUFFERED": "1",
    }
    environ |= environ_too
    with subprocess.Popen(
        [str(part) for part in command],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            note_counts(line, counts)
    return process.returncode


def run_lint(stage: Stage) -> int:
    """Ruff's linter and formatter, mypy, spelling: all of them, whatever the first says."""
    module = [PYTHON, "-m"]
    spelling = ["codespell_lib", "--toml", "pyproject.toml", "."]
    commands = (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"], spelling)
    return max(watched([*module, *command], stage.counts) for command in commands)


def run_javascript(stage: Stage) -> int:
    files = sorted(p for p in (ROOT / "tests" / "js").rglob("*test*.*js") if p.is_file())
    node = shutil.which("node")
    if not files:
        stage.note = "no tests/js"
        return 0
    if node is None:
        stage.note = "skipped: node is not on the PATH"
        return 1 if IN_CI else 0
    return watched([node, "--test", *files], stage.counts)


def spread_pytest(*arguments: str | Path) -> list[str | Path]:
    """pytest's command line, with a worker for each core.

    A file stays in one worker: its tests share what is slow to make, a notebook's cells a kernel.
    Files begin in their own order: by number of tests, the longest single tests would come last.
    """
    spread = ["-n", str(min(os.cpu_count() or 1, MOST_WORKERS)), "--dist=loadfile"]
    spread.append("--no-loadscope-reorder")
    return [PYTHON, "-m", "pytest", "-q", *spread, *arguments]


def run_pytest(stage: Stage, *arguments: str | Path) -> int:
    """pytest over the cores; that it found nothing to run is fine."""
    command = spread_pytest("--durations=10", *arguments)
    status = watched(command, stage.counts, OMP_NUM_THREADS="1")
    return 0 if status == 5 else status


def run_unit_tests(stage: Stage) -> int:
    marks = f"not ({WITH_BROWSER} or {OF_THE_BOOK} or {LEFT_OUT})"
    return run_pytest(stage, "-m", marks, "tests")


def run_book(_: Stage) -> int:
    with environment.alone():
        return build_book(fresh=True)


def run_notebooks(stage: Stage) -> int:
    """Pages: what their marked cells said in the build is compared. Solutions: run, and all is."""
    pages = run_pytest(stage, "-m", OF_THE_BOOK, "tests")
    options = ["--nbval", f"--nbval-cell-timeout={CELL_TIMEOUT}", "--nbval-current-env"]
    solutions = sorted((ROOT / "solutions").glob("*.ipynb"))
    return max(pages, run_pytest(stage, *options, *solutions) if solutions else 0)


def run_browser_tests(stage: Stage) -> int:
    marks = f"({WITH_BROWSER}) and not ({LEFT_OUT})"
    # Pages are many in one file, and a browser of its own costs a worker little.
    return run_pytest(stage, "--dist=worksteal", "-m", marks, "tests")


STAGES: dict[str, Callable[[Stage], int]] = {
    "lint and types": run_lint,
    "JavaScript tests": run_javascript,
    "unit tests": run_unit_tests,
    "book, built anew": run_book,
    "notebooks": run_notebooks,
    "browser tests": run_browser_tests,
}


def timed(name: str, work: Callable[[Stage], int]) -> Stage:
    print(f"\n---- {name} ----", flush=True)
    stage = Stage(name)
    start = time.monotonic()
    stage.status = work(stage)
    stage.seconds = time.monotonic() - start
    print(f"---- {name}: {stage.seconds:.0f} s, {'failed' if stage.status else 'ok'}", flush=True)
    return stage


def set_up(_: Stage) -> int:
    with environment.alone():
        environment.ensure()
    return 0


def report(stages: Sequence[Stage]) -> int:
    """Print what took how long, and last the numbers of tests."""
    print()
    for stage in stages:
        word = "FAILED" if stage.status else "ok"
        print(f"{stage.name:<20} {stage.seconds:6.0f} s  {word:<6}  {stage.note}".rstrip())
    print(f"{'all of it':<20} {sum(stage.seconds for stage in stages):6.0f} s")
    total = {
        word: sum(stage.counts.get(word, 0) for stage in stages)
        for word in ("passed", "failed", "skipped")
    }
    print(", ".join(f"{number} {word}" for word, number in total.items()))
    return 1 if any(stage.status for stage in stages) else 0


def test(_: Sequence[str]) -> int:
    stages = [timed("set-up", set_up)]
    stages += [timed(name, work) for name, work in STAGES.items()]
    return report(stages)


def lint(_: Sequence[str]) -> int:
    with environment.alone():
        environment.ensure()
    return run_lint(Stage("lint"))


# ---- the rest --------------------------------------------------------------------------------


def fuzz(_: Sequence[str]) -> int:
    with environment.alone():
        environment.ensure()
    return call([PYTHON, "-m", "pytest", "-s", "-m", "fuzz", "tests"])


def test_grading(_: Sequence[str]) -> int:
    with environment.alone():
        environment.ensure()
    return call([PYTHON, "-m", "pytest", "-m", "grading", "tests/grade"])


def check(names: Sequence[str]) -> int:
    with environment.alone():
        environment.ensure()
    return call([PYTHON, ROOT / ".ci" / "check.py", *names])


def check_book(_: Sequence[str]) -> int:
    """The pages three times in a row, with Python's warnings on: what they say must not change."""
    with environment.alone():
        environment.ensure()
    pages = sorted((ROOT / "book").glob("*.ipynb"))
    options = ["--nbval-lax", f"--nbval-cell-timeout={CELL_TIMEOUT}", "--nbval-current-env"]
    for number in range(1, 4):
        print(f"Run {number} of 3", flush=True)
        if status := call(spread_pytest(*options, *pages), PYTHONWARNINGS="default"):
            return status
    return 0


def bench(arguments: Sequence[str]) -> int:
    """Every workload; beside mini-sglang's managers, too, where MINISGL_PATH names its folder."""
    with environment.alone():
        environment.ensure()
    clone = os.environ.get("MINISGL_PATH")
    beside = ["--minisgl", clone] if clone else []
    command = [PYTHON, "-m", "minisgl_lite", "bench", *WORKLOADS, "--rounds", "3", *beside]
    return call([*command, *arguments])


def exhaustive(arguments: Sequence[str]) -> int:
    with environment.alone():
        environment.ensure()
    return call([PYTHON, "-m", "tests.exhaustive", *arguments])


def mutation(arguments: Sequence[str]) -> int:
    with environment.alone():
        environment.ensure()
    return call([PYTHON, "-m", "tests.teaching.exercises.mutation", *arguments])


def gpu_check(_: Sequence[str]) -> int:
    with environment.alone():
        environment.ensure()
    return call([PYTHON, ROOT / "tests" / "gpu" / "check.py"])


def reference(_: Sequence[str]) -> int:
    if not os.environ.get("MINISGL_PATH"):
        raise Absent("MINISGL_PATH is not set: name the python folder of a mini-sglang clone")
    with environment.alone():
        environment.ensure()
    return call([PYTHON, "-m", "pytest", "-m", "reference", "tests/reference", "tests/teaching"])


def bench_view(_: Sequence[str]) -> int:
    with environment.alone():
        environment.ensure()
    return call([PYTHON, "-m", "tests.viz.bench_view"])


def vendor(_: Sequence[str]) -> int:
    with environment.alone():
        environment.ensure()
    return call([PYTHON, ROOT / ".ci" / "vendor.py"])


def clean(_: Sequence[str]) -> int:
    for path in (BUILD, *(ROOT / name for name in CACHES)):
        if path.exists():
            print(f"Removing {path.relative_to(ROOT)}")
            shutil.rmtree(path)
    print("The environment stays; to be rid of it, too: rm -r .venv")
    return 0


TARGETS: dict[str, Callable[[Sequence[str]], int]] = {
    "bench": bench,
    "bench-view": bench_view,
    "book": book,
    "check": check,
    "check-book": check_book,
    "clean": clean,
    "exhaustive": exhaustive,
    "test-grading": test_grading,
    "fuzz": fuzz,
    "gpu-check": gpu_check,
    "lab": lab,
    "lint": lint,
    "mutation": mutation,
    "reference": reference,
    "test": test,
    "vendor": vendor,
}


def main(arguments: Sequence[str]) -> int:
    target, *rest = arguments
    try:
        return TARGETS[target](rest)
    except Absent as absent:
        print(f"make: {absent}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nmake: interrupted; `make {target}` goes on where it stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
