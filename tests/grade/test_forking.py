"""Forked jobs: each as fresh as one that is started anew, and none outlives the grader."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minisgl_lite.grade import run, sandbox
from minisgl_lite.grade.forking import Forked, Started, Template

from .submissions import ROOT
from .test_sandbox import alive, wait_until_gone

NO_SANDBOX = f"no sandbox here: {', '.join(sandbox.missing())} missing"
pytestmark = pytest.mark.skipif(bool(sandbox.missing()), reason=NO_SANDBOX)

STAND_IN = """
import sys, types
from minisgl_lite.grade import forking
def main(argv):
    exec(open(argv[1]).read(), {"argv": argv})
    return 0
sys.modules["minisgl_lite.grade.job"] = types.SimpleNamespace(main=main)
forking._import = lambda: None
EXTRA
sys.exit(forking.main(sys.argv[1:]))
"""
"""A template whose jobs run the text that they are given, and import nothing for it."""
ENV = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def program(extra: str = "") -> list[str]:
    return [sys.executable, "-c", STAND_IN.replace("EXTRA", extra)]


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    made = Template(ENV, program())
    if not made.works and os.getuid() != 0:
        pytest.skip("this host's namespaces can be had by bubblewrap alone")
    assert made.works
    yield made
    made.stop()


class Job:
    """A folder as ``run_job`` makes it, and a job in it that runs `code`."""

    def __init__(self, template: Template, code: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="job-")
        self.folder = Path(self._folder.name)
        (self.folder / "kernel-1").mkdir()
        (self.folder / "code").write_text(code)
        arguments = [str(self.folder / x) for x in ("course", "code", "out", "kernel-1")]
        with (self.folder / "log").open("wb") as log:
            self.forked = template.start([*arguments, "5"], self.folder, log.fileno())

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *exc: object) -> None:
        self.forked.__exit__()
        self._folder.cleanup()

    def log(self) -> str:
        return (self.folder / "log").read_text()


def outcome(template: Template, code: str) -> tuple[int, str]:
    """The exit status, and the last line that was written."""
    with Job(template, code) as job:
        status = job.forked.wait(30)
        return status, (job.log().strip().splitlines() or [""])[-1]


def test_a_job_sees_no_process_but_its_own(template: Template) -> None:
    code = "import os; print(os.getpid(), [n for n in os.listdir('/proc') if n.isdigit()])"
    assert outcome(template, code) == (0, "1 ['1']")


def test_its_folder_of_sockets_is_in_memory_small_and_its_own(template: Template) -> None:
    code = """
size = sum(len(open(argv[3] + "/" + n, "rb").read()) for n in __import__("os").listdir(argv[3]))
try:
    open(argv[3] + "/x", "wb").write(bytes(9 << 20))
except OSError as error:
    print(size, error.strerror)
"""
    with Job(template, code) as job:
        assert job.forked.wait(30) == 0
        assert job.log().strip() == "0 No space left on device"
        assert list((job.folder / "kernel-1").iterdir()) == []


def test_nothing_of_one_job_is_in_the_next(template: Template) -> None:
    spoils = """
import json, os, random, sys, tempfile
json.left = os.environ["LEFT"] = "left"
sys.path.append("/left")
tempfile.gettempdir()
os.umask(0)
os.chdir("/")
print(random.random())
"""
    looks = """
import json, os, random, sys, tempfile
found = [hasattr(json, "left"), "LEFT" in os.environ, "/left" in sys.path, os.umask(18) == 0]
assert os.getcwd() == tempfile.gettempdir() == os.path.dirname(argv[1]), os.getcwd()
print(found, file=sys.stderr)
print(random.random())
"""
    status, first = outcome(template, spoils)
    assert status == 0
    with Job(template, looks) as job:
        assert job.forked.wait(30) == 0, job.log()
        lines = job.log().splitlines()
    assert str([False] * 4) in lines
    assert first not in lines, "the same random numbers"


def test_a_job_holds_no_file_but_its_log(template: Template) -> None:
    code = """
import os
held = {}
for fd in os.listdir("/proc/self/fd"):
    try:
        held[int(fd)] = os.readlink("/proc/self/fd/" + fd)
    except OSError:
        pass
log = os.path.dirname(argv[1]) + "/log"
print(sorted(set(held.values()) - {"/dev/null", log}))
"""
    assert outcome(template, code) == (0, "[]")


@pytest.mark.parametrize(
    ("code", "status", "last"),
    [
        ("import os; os._exit(3)", 3, ""),
        ("raise MemoryError('too much')", 1, "MemoryError: too much"),
        ("import sys; sys.exit(4)", 1, "SystemExit: 4"),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV, ""),
    ],
    ids=["ends", "raises", "exits", "crashes"],
)
def test_how_a_job_ended_is_known(template: Template, code: str, status: int, last: str) -> None:
    assert outcome(template, code) == (status, last)
    assert outcome(template, "print('the next one')") == (0, "the next one")


def sleeper(token: str) -> str:
    """Code of a job that starts a process in a session of its own, says so, and sleeps."""
    return f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "{token}"],
                 start_new_session=True)
print("started", flush=True)
time.sleep(60)
"""


def wait_until_started(log: Path) -> None:
    for _ in range(300):
        if log.is_file() and "started" in log.read_text():
            return
        time.sleep(0.1)
    raise AssertionError("it has not begun")


def test_a_job_that_is_ended_takes_all_that_it_started_along(template: Template) -> None:
    token = f"left-{secrets.token_hex(8)}"
    with Job(template, sleeper(token)) as job:
        wait_until_started(job.folder / "log")
        with pytest.raises(TimeoutError):
            job.forked.wait(0.1)
        assert len(alive(token)) == 1
        begin = time.monotonic()
        job.forked.end()
        assert alive(token) == [] and time.monotonic() - begin < 30, "it sleeps for a minute"
        assert job.forked.wait(10) == -signal.SIGKILL
        job.forked.end()  # once more does no harm


def test_jobs_run_side_by_side(template: Template) -> None:
    code = "import time; time.sleep(1)"
    begin = time.monotonic()
    with Job(template, code) as one, Job(template, code) as other:
        assert one.forked.wait(30) == other.forked.wait(30) == 0
    assert time.monotonic() - begin < 1.9


def test_nothing_outlives_a_grader_that_is_killed(tmp_path: Path) -> None:
    token = f"left-{secrets.token_hex(8)}"
    (tmp_path / "kernel-1").mkdir()
    (tmp_path / "code").write_text(sleeper(token))
    arguments = [str(tmp_path / name) for name in ("course", "code", "out", "kernel-1")]
    text = f"""
import os, time
from pathlib import Path
from minisgl_lite.grade.forking import Template
template = Template(os.environ, {program(f"# {token}")!r})
log = open({str(tmp_path / "log")!r}, "wb")
job = template.start({arguments!r}, Path({str(tmp_path)!r}), log.fileno())
time.sleep(60)
"""
    grader = subprocess.Popen([sys.executable, "-c", text], env=ENV)
    try:
        wait_until_started(tmp_path / "log")
        # The grader, the template, who watches over the job, the job, and what it started.
        assert len(alive(token)) == 5
    finally:
        grader.kill()
        grader.wait()
    assert wait_until_gone(token) == []


@pytest.mark.parametrize(
    "why",
    [
        "forking._namespaces = lambda *_: 1 / 0",
        "from threading import Timer\ntimer = Timer(60, print)\ntimer.daemon = True\ntimer.start()",
    ],
    ids=["no-namespaces", "threads"],
)
def test_where_jobs_cannot_be_forked_they_are_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    lame = Template(ENV, program(why))
    try:
        assert not lame.works
        monkeypatch.setattr(Template, "running", lambda _: lame)
        monkeypatch.setattr(run, "JOB", [sys.executable, "-c", "print('anew')"])
        with (tmp_path / "log").open("wb") as log:
            (tmp_path / "kernel-1").mkdir()
            with run._start([], tmp_path, log.fileno()) as process:
                assert isinstance(process, Started) and process.wait(30) == 0
        assert (tmp_path / "log").read_text() == "anew\n"
    finally:
        lame.stop()


def test_a_job_of_another_version_is_started_anew(
    template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Template, "running", lambda _: template)
    monkeypatch.setattr(run, "JOB", [sys.executable, "-c", "pass"])
    (tmp_path / "kernel-1").mkdir()
    (tmp_path / "code").write_text("")
    arguments = [str(tmp_path / name) for name in ("course", "code", "out", "kernel-1")]
    with (tmp_path / "log").open("wb") as log:
        with run._start(arguments, tmp_path, log.fileno()) as process:
            assert isinstance(process, Forked) and process.wait(30) == 0
        (tmp_path / "package").mkdir()
        with run._start(arguments, tmp_path, log.fileno()) as process:
            assert isinstance(process, Started) and process.wait(30) == 0


def test_a_template_that_died_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Template, "_one", None)
    monkeypatch.setattr(Template.__init__, "__defaults__", (program(),))
    first = Template.running(ENV)
    assert Template.running(ENV) is first
    first._process.kill()
    first._process.wait()
    second = Template.running(ENV)
    assert second is not first and outcome(second, "print(1)") == (0, "1")
    second.stop()
    first.stop()
