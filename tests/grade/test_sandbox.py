"""The sandbox's walls, one by one: with it a probe is refused, without it the same probe gets by.

A wall whose removal changes nothing would be a wall that nobody has seen holding.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from minisgl_lite.grade import sandbox
from minisgl_lite.grade.sandbox import ACCOUNTS, SYSCALLS, Limits, around_job, hand_over, walls
from minisgl_lite.grade.syscalls import MACHINES, program

ROOT = Path(__file__).resolve().parents[2]
NO_SANDBOX = f"no sandbox here: {', '.join(sandbox.missing())} missing"
pytestmark = pytest.mark.skipif(bool(sandbox.missing()), reason=NO_SANDBOX)

MIB = 2**20
SMALL = Limits(
    memory=2**31,
    cpu_seconds=2,
    processes=20,
    file_size=4 * MIB,
    open_files=40,
    work_folder=MIB,
    shared_memory=MIB,
    sockets=MIB,
)


class Host(NamedTuple):
    """What there is on this side: a server, a file, a process, folders for the two ends."""

    port: int
    secret: Path
    pid: int
    runtime: Path
    learner: Path


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    for name in ("kernel-1", "learner"):
        (tmp_path / name).mkdir()
    (tmp_path / "kernel-1").chmod(0o1777)
    monkeypatch.setenv("COURSE_SECRET", "0123")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        tempfile.TemporaryDirectory(dir="/tmp") as folder,
    ):
        os.chmod(folder, 0o755)  # so that it is the wall that hides it, and nothing else
        secret, learner = Path(folder) / "gradebook.db", tmp_path / "learner"
        secret.write_text("marks")
        port = int(server.getsockname()[1])
        yield Host(port, secret, os.getpid(), tmp_path / "kernel-1", learner)


def run(command: list[str], code: str) -> str:
    """The last line that Python prints for `code`, run behind `command`."""
    result = subprocess.run(
        [*command, sys.executable, "-I", "-S", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    lines = (result.stdout.strip() or result.stderr.strip()).splitlines()
    return lines[-1] if lines else f"ended with {result.returncode}"


def exchanged(command: list[str], part: list[str], other: list[str]) -> list[str]:
    """`command` with `part`, which must stand in it once, exchanged for `other`."""
    places = [i for i in range(len(command)) if command[i : i + len(part)] == part]
    assert len(places) == 1, f"{part} stands {len(places)} times in {command}"
    return [*command[: places[0]], *other, *command[places[0] + len(part) :]]


def without(*part: str, instead: tuple[str, ...] = ()) -> Callable[[list[str]], list[str]]:
    return lambda command: exchanged(command, list(part), list(instead))


def attempt(code: str) -> str:
    body = "\n".join(f"    {line}" for line in code.strip().splitlines())
    return f"try:\n{body}\nexcept (OSError, MemoryError) as e:\n    print(type(e).__name__)"


def writes(path: str, size: int) -> str:
    return attempt(f"open({path!r}, 'wb').write(bytes({size}))\nprint('written')")


READ_ONLY = "import os; print(bool(os.statvfs({path!r}).f_flag & os.ST_RDONLY))"
FORKS = attempt("""
import os, time
for _ in range(40):
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
print('forked', flush=True)
os._exit(0)
""")
TMP = ("--perms", "1777", "--size", str(SMALL.work_folder), "--tmpfs", "/tmp")
SHM = ("--perms", "1777", "--size", str(SMALL.shared_memory), "--tmpfs", "/dev/shm")


class Wall(NamedTuple):
    """`probe` prints `held` behind all walls, and `gone` behind all but this one."""

    take_away: Callable[[list[str]], list[str]]
    probe: str
    held: str
    gone: str


WALLS = {
    "network-and-loopback": Wall(
        without("--unshare-net"),
        attempt(
            "import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('reached')"
        ),
        "ConnectionRefusedError",
        "reached",
    ),
    "processes-of-the-host": Wall(
        without("--unshare-pid"),
        "import os; print(os.path.exists('/proc/{pid}'))",
        "False",
        "True",
    ),
    "number-of-processes": Wall(
        without(f"--nproc={SMALL.processes}", instead=("--nproc=1000",)),
        FORKS,
        "BlockingIOError",
        "forked",
    ),
    "memory": Wall(
        without(f"--as={SMALL.memory}", instead=("--as=unlimited",)),
        attempt("import mmap; mmap.mmap(-1, 3 << 30, flags=0x4022); print('mapped')"),
        "OSError",
        "mapped",
    ),
    "processor-time": Wall(
        without(f"--cpu={SMALL.cpu_seconds}", instead=("--cpu=100",)),
        "import time\nwhile time.process_time() < 2.5: pass\nprint('ran on')",
        "ended with 137",
        "ran on",
    ),
    "open-files": Wall(
        without(f"--nofile={SMALL.open_files}", instead=("--nofile=200",)),
        attempt("files = [open('/dev/null') for _ in range(100)]; print('opened')"),
        "OSError",
        "opened",
    ),
    "file-size": Wall(
        lambda command: without(f"--fsize={SMALL.file_size}", instead=("--fsize=unlimited",))(
            without(*TMP, instead=("--perms", "1777", "--tmpfs", "/tmp"))(command)
        ),
        writes("/tmp/x", 8 * MIB),
        "OSError",
        "written",
    ),
    "work-folder": Wall(
        without(*TMP, instead=("--perms", "1777", "--tmpfs", "/tmp")),
        writes("/tmp/x", 2 * MIB),
        "OSError",
        "written",
    ),
    "shared-memory": Wall(
        without(*SHM, instead=("--perms", "1777", "--tmpfs", "/dev/shm")),
        writes("/dev/shm/x", 2 * MIB),
        "OSError",
        "written",
    ),
    "system-read-only": Wall(
        without("--ro-bind", "/usr", "/usr", instead=("--bind", "/usr", "/usr")),
        READ_ONLY.replace("{path!r}", "'/usr'"),
        "True",
        "False",
    ),
    "python-read-only": Wall(
        without("--ro-bind", sys.prefix, sys.prefix, instead=("--bind", sys.prefix, sys.prefix)),
        READ_ONLY.replace("{path!r}", repr(sys.prefix)),
        "True",
        "False",
    ),
    "devices-read-only": Wall(
        without("--remount-ro", "/dev"),
        READ_ONLY.replace("{path!r}", "'/dev'"),
        "True",
        "False",
    ),
    "gradebook-and-other-submissions": Wall(
        without(*TMP, instead=("--bind", "/tmp", "/tmp")),
        "import os; print(os.path.exists('{secret}'))",
        "False",
        "True",
    ),
    "solutions-and-checks": Wall(
        without("--chdir", "/tmp", instead=("--ro-bind", str(ROOT), str(ROOT), "--chdir", "/tmp")),
        "import os; print([os.path.exists('{root}/' + name) for name in "
        "('solutions', 'minisgl_lite/teaching/exercises', 'minisgl_lite/grade')])",
        "[False, False, False]",
        "[True, True, True]",
    ),
    "root-folder-read-only": Wall(
        without("--remount-ro", "/"), READ_ONLY.replace("{path!r}", "'/'"), "True", "False"
    ),
    "system-calls": Wall(
        without(sys.executable, "-I", "-S", "-c", SYSCALLS.read_text(encoding="utf-8")),
        # Asks which personality this process has: a call that is refused, and does nothing.
        "import ctypes; print(ctypes.CDLL(None).personality(0xFFFFFFFF) >= 0)",
        "False",
        "True",
    ),
    "environment": Wall(
        without("--clearenv"), "import os; print('COURSE_SECRET' in os.environ)", "False", "True"
    ),
}


SHOWN_BESIDE_TMP = ("gradebook-and-other-submissions", "solutions-and-checks")
"""Walls whose absence shows only where this checkout lies outside /tmp."""


@pytest.mark.parametrize("name", WALLS)
def test_a_wall_holds_and_without_it_nothing_does(host: Host, name: str) -> None:
    if name in SHOWN_BESIDE_TMP and Path("/tmp") in ROOT.parents:
        pytest.skip("below /tmp, the sandbox's own /tmp hides what is to be seen without the wall")
    wall = WALLS[name]
    probe = wall.probe
    for key, value in (host._asdict() | {"root": ROOT}).items():
        probe = probe.replace("{" + key + "}", str(value))
    whole = walls(host.runtime, host.learner, SMALL, secrets.choice(ACCOUNTS))
    assert run(whole, probe) == wall.held
    assert run(wall.take_away(whole), probe) == wall.gone


@pytest.mark.parametrize("kind", ["net", "pid", "ipc", "uts"])
def test_a_namespace_of_its_own(host: Host, kind: str) -> None:
    probe = f"import os; print(os.readlink('/proc/self/ns/{kind}'))"
    whole = walls(host.runtime, host.learner)
    outside = os.readlink(f"/proc/self/ns/{kind}")
    assert run(whole, probe) not in ("", outside)
    assert run(exchanged(whole, [f"--unshare-{kind}"], []), probe) == outside


@pytest.mark.skipif(os.getuid() != 0, reason="only root has an account to give up")
def test_root_becomes_an_account_without_rights(host: Host) -> None:
    probe = (
        "import os; status = open('/proc/self/status').read();"
        "print(os.getuid(), os.getgid(), os.getgroups(), status.split('CapBnd:')[1].split()[0])"
    )
    whole = walls(host.runtime, host.learner, account=61500)
    assert run(whole, probe) == f"61500 61500 [] {'0' * 16}"
    start = whole.index("setpriv")
    kept = [*whole[:start], *whole[whole.index("prlimit", start) :]]
    assert run(kept, probe).startswith("0 0 ")


MOUNTS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
made = libc.unshare(0x10020000) == 0  # a user's namespace and one of mounts
if made:
    made = libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0
print("mounted" if made else "refused")
"""


def test_no_file_system_without_limit_is_mounted_inside(host: Host) -> None:
    """Behind the other walls anybody could: with a namespace of users that is their own."""
    whole = walls(host.runtime, host.learner, SMALL, secrets.choice(ACCOUNTS))
    assert run(whole, MOUNTS) == "refused"
    filtered = [sys.executable, "-I", "-S", "-c", SYSCALLS.read_text(encoding="utf-8")]
    if run(exchanged(whole, filtered, []), MOUNTS) == "refused":
        pytest.skip("this host gives nobody a namespace of users")


def test_threads_and_processes_are_still_made(host: Host) -> None:
    code = """
import subprocess, threading
threading.Thread(target=print, args=("thread",)).start()
print(subprocess.run(["echo", "process"], capture_output=True, text=True).stdout.strip())
"""
    assert run(walls(host.runtime, host.learner), code) == "process"


def test_the_filter_is_whole_for_each_machine_and_none_for_others() -> None:
    for machine in MACHINES:
        steps = [program(machine)[i : i + 8] for i in range(0, len(program(machine)), 8)]
        ends = [int.from_bytes(step[4:], sys.byteorder) for step in steps if step[0] == 6]
        assert ends.count(0x7FFF0000) == 1 and ends[-1] == 0x7FFF0000
        jumps = [i + 1 + max(step[2], step[3]) for i, step in enumerate(steps) if step[0] & 7 == 5]
        assert max(jumps) < len(steps) < 4096
    assert program("vax") == b""


def test_a_kernel_holds_none_of_the_graders_files(host: Host, tmp_path: Path) -> None:
    """Its program closes what it was started with: the job's log among it."""
    (host.runtime / "kernel.json").write_text("{}")
    seen = tmp_path / "seen"
    code = f"""
import os, sys
from unittest.mock import patch
from minisgl_lite.grade import sandbox
log = open({str(tmp_path / "log")!r}, "w")
os.set_inheritable(log.fileno(), True)
def become(program, arguments):
    out = os.open({str(seen)!r}, os.O_WRONLY | os.O_CREAT)
    for fd in os.listdir("/proc/self/fd"):
        try:
            os.write(out, (os.readlink("/proc/self/fd/" + fd) + "\\n").encode())
        except OSError:
            pass
    os._exit(0)
sys.argv[1:] = [{str(host.runtime / "kernel.json")!r}]
os.environ[sandbox.LEARNER] = {str(host.learner)!r}
with patch.object(os, "execvp", become):
    sandbox.main()
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stderr=subprocess.PIPE)
    assert set(seen.read_text().split()) <= {"/dev/null", str(seen), "/proc/self/fd"}


def alive(token: str) -> list[int]:
    """The processes with `token` in their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and token in (folder / "cmdline").read_bytes().decode():
                found.append(int(folder.name))
        except (OSError, UnicodeDecodeError):
            continue
    return found


def wait_until_gone(token: str) -> list[int]:
    for _ in range(50):
        if not alive(token):
            return []
        time.sleep(0.1)
    return alive(token)


def test_nothing_is_left_behind(host: Host) -> None:
    token = f"left-{secrets.token_hex(8)}"
    code = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c',"
        f" 'import time; time.sleep(60)', '{token}'], start_new_session=True,"
        " stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)"
    )
    whole = walls(host.runtime, host.learner)
    run(whole, code)
    assert wait_until_gone(token) == []
    run(exchanged(whole, ["--unshare-pid"], []), code)
    left = alive(token)
    for pid in left:
        os.kill(pid, 9)
    assert len(left) == 1


def test_what_a_job_started_ends_when_the_grader_is_killed(host: Host) -> None:
    token = f"left-{secrets.token_hex(8)}"
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)", token]
    inner = f"import subprocess; subprocess.run({[*around_job(host.runtime), *sleeper]!r})"
    grader = subprocess.Popen([sys.executable, "-c", inner])
    for _ in range(100):
        if len(alive(token)) > 2:  # the grader, bubblewrap and the sleeper itself
            break
        time.sleep(0.1)
    assert len(alive(token)) > 2
    grader.kill()
    grader.wait()
    assert wait_until_gone(token) == []


def test_the_folder_of_sockets_is_small(host: Host) -> None:
    probe = writes(str(host.runtime / "x"), 2 * MIB)
    open_to_all = ["sh", "-c", f'chmod 1777 {host.runtime} && exec "$@"', "sh"]
    inside = walls(host.runtime, host.learner, SMALL)
    assert run([*around_job(host.runtime, SMALL), *open_to_all, *inside], probe) == "OSError"
    assert list(host.runtime.iterdir()) == []
    assert run([*open_to_all, *inside], probe) == "written"


def test_links_that_an_earlier_kernel_left_are_not_followed(host: Host) -> None:
    before = host.secret.stat()
    (host.runtime / "kernel.json").symlink_to(host.secret)
    (host.runtime / "other").symlink_to(host.secret)
    hand_over(host.runtime / "kernel.json")
    after = host.secret.stat()
    assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)


def test_a_folder_that_others_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a folder for one kernel"):
        walls(tmp_path, tmp_path)


def test_the_package_beside_a_learners_copy_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "venv" / "lib" / "python3.11" / "site-packages" / "minisgl_lite"
    installed.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    command = walls(tmp_path / "kernel-1", tmp_path / "learner")
    place = command.index(str(installed))
    assert command[place - 1] == "--tmpfs"
    assert place > command.index(str(tmp_path / "venv"))


def test_a_package_within_the_environment_is_hidden_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(ROOT))  # a clone in which the environment was made
    command = walls(tmp_path / "kernel-1", tmp_path / "learner")
    assert command[command.index(str(ROOT / "minisgl_lite")) - 1] == "--tmpfs"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can try what another account may do")
def test_a_grader_without_rights_builds_the_same_walls(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = host.secret.parent  # open to all accounts
    for name in ("kernel-1", "learner"):
        (folder / name).mkdir()
        os.chown(folder / name, 61500, 61500)
    monkeypatch.setattr(os, "getuid", lambda: 61500)
    monkeypatch.setattr(sys, "prefix", "/usr/share")
    monkeypatch.setattr(sys, "base_prefix", "/usr/share")
    system = [p for p in ("/usr/bin/python3", "/usr/local/bin/python3") if os.path.exists(p)]
    if not system:
        pytest.skip("another account can use no Python here")
    monkeypatch.setattr(sys, "executable", system[0])
    outside = around_job(folder / "kernel-1", SMALL)
    inside = walls(folder / "kernel-1", folder / "learner", SMALL)
    account = ["setpriv", "--reuid=61500", "--regid=61500", "--clear-groups"]
    script = f"""
id -u; touch {folder}/kernel-1/x && echo sockets; cat {host.secret} || echo hidden
touch /usr/x || echo read-only; touch /x || echo no-more
for i in $(seq 40); do sleep 1 & done; wait; echo forked
"""
    result = subprocess.run(
        [*account, *outside, *inside, "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.stdout.split() == [
        "61500", "sockets", "hidden", "read-only", "no-more",
    ], result.stderr  # fmt: skip
    assert "Cannot fork" in result.stderr


def test_the_page_for_instructors_names_the_limits() -> None:
    text = " ".join((ROOT / "book" / "grading.md").read_text(encoding="utf-8").split())
    limits = Limits()
    memory, file = limits.memory // 2**30, limits.file_size // MIB
    told = f"({memory} GiB, {limits.cpu_seconds} seconds, {limits.processes} processes, {file} MiB"
    assert told in text
