"""Jobs without their imports, which take longer than all else that the grader does for one.

A process that has them, the *template*, forks each job. It reads no submission, and nothing comes
back to it from a job: every one begins with the same memory, in namespaces of its own and with its
folder of sockets in memory, as ``sandbox.around_job`` builds them for a job that is started anew.
Where those can't be had without bubblewrap, jobs are started anew.

``python -m minisgl_lite.grade.forking FD`` is the template; it ends with who holds the other end.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from . import sandbox

NEW_MOUNTS, NEW_USER, NEW_PIDS = 0x20000, 0x10000000, 0x20000000
NO_SUID, NO_DEVICES, NO_EXEC, RECURSIVE, SLAVE = 2, 4, 8, 0x4000, 0x80000
PARENT_DEATH_SIGNAL, NO_NEW_PRIVILEGES = 1, 38
MESSAGE = 2**16
PROGRAM = (sys.executable, "-m", "minisgl_lite.grade.forking")


# ---- the grader's end ----------------------------------------------------------------------------
class Started:
    """A job in a process that was started for it."""

    def __init__(self, command: Sequence[str], folder: Path, log: int, env: Mapping[str, str]):
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            # Where the grader was started, a student's folder may be named like a module.
            cwd=folder,
            env=env,
        )

    def wait(self, seconds: float) -> int:
        """Its exit status, as subprocess has it. Raises TimeoutError."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None

    def end(self) -> None:
        """End it and all that it started; does nothing to one that has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()


class Forked:
    """A job that the template forked; it ends when its socket is closed here."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def wait(self, seconds: float) -> int:
        """Its exit status, as subprocess has it. Raises TimeoutError."""
        if not select.select([self._socket], [], [], seconds)[0]:
            raise TimeoutError
        said = self._socket.recv(16)
        return int(said) if said else -signal.SIGKILL

    def end(self) -> None:
        """End it and all that it started; does nothing to one that has ended."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while self._socket.recv(16):  # who watches over it hangs up when it is gone
                pass

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()
        self._socket.close()


class Template:
    """The template, as the grader has it. ``works``: it can build what a job needs."""

    _one: ClassVar[Template | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, env: Mapping[str, str], program: Sequence[str] = PROGRAM) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*program, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[theirs.fileno()],
                cwd="/",
                env=env,
            )
        self.works = self._control.recv(2) == b"ok"

    @classmethod
    def running(cls, env: Mapping[str, str]) -> Template:
        """The one of this process, started when first asked for."""
        with cls._lock:
            if cls._one is None or cls._one._process.poll() is not None:
                cls._one = cls(env)
                atexit.register(cls._one.stop)
            return cls._one

    def start(self, arguments: Sequence[str], folder: Path, log: int) -> Forked:
        """A job in ``folder`` with the arguments of ``job.main``; it writes to ``log``."""
        order = {"arguments": list(arguments), "folder": str(folder)}
        here, there = socket.socketpair()
        with there:
            socket.send_fds(self._control, [json.dumps(order).encode()], [there.fileno(), log])
        return Forked(here)

    def stop(self) -> None:
        """No further job; those that run go on."""
        self._control.close()
        self._process.wait()


# ---- the template's ------------------------------------------------------------------------------
def main(argv: Sequence[str]) -> int:
    """Import, say whether jobs can be forked, and fork them."""
    sys.path[:] = [path for path in sys.path if path not in ("", "/")]
    control = socket.socket(fileno=int(argv[0]))
    _import()
    alone = len(os.listdir("/proc/self/task")) == 1  # of several threads, a fork has but one
    control.send(b"ok" if alone and _can_build() else b"no")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those who watch over jobs are not waited for
    gc.freeze()  # what is not touched is not copied
    while True:
        message, ends, _, _ = socket.recv_fds(control, MESSAGE, 2)
        if not message:
            return 0
        if os.fork() == 0:
            control.close()
            _end_with(functools.partial(_watch, json.loads(message), *ends), ends[1])
        for end in ends:
            os.close(end)


def _end_with(do: Callable[[], int], log: int | None = None) -> NoReturn:
    """End this process with what ``do`` returns; a fork must never go on with the template's."""
    status = 1
    try:
        status = do()
    except BaseException:
        if log is not None:
            with contextlib.suppress(OSError):
                os.write(log, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _import() -> None:
    """All that a job imports; nothing that one could leave a trace in is begun."""
    import nbgrader.api
    import nbgrader.converters
    import nbgrader.preprocessors  # noqa: F401

    from ..kernel import compiled
    from ..teaching.checks import load_exercises
    from . import course, job  # noqa: F401

    load_exercises()
    # Of the same version as what calls them, should somebody change this package meanwhile.
    for source in sorted(Path(compiled.__file__).parent.glob("*.c")):
        compiled.load_library(source.name)


def _can_build() -> bool:
    """Whether namespaces, a folder in memory and a /proc can be had: tried, and gone again."""

    def process_list() -> int:
        _process_list()
        return 0

    def attempt() -> int:
        _namespaces(Path(name))
        return _status(_forked(process_list))

    with tempfile.TemporaryDirectory(prefix="kernel-") as name:
        return _status(_forked(attempt)) == 0


def _forked(do: Callable[[], int], log: int | None = None) -> int:
    child = os.fork()
    if child == 0:
        _end_with(do, log)
    return child


def _status(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _watch(order: dict[str, Any], end: int, log: int) -> int:
    """Between the grader and a job, in the namespaces that the job is the first process of."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    arguments, folder = order["arguments"], order["folder"]
    _namespaces(Path(arguments[3]))
    child = _forked(lambda: _job(arguments, folder, log), log)
    job = os.pidfd_open(child)
    if job not in select.select([end, job], [], [])[0]:
        os.kill(child, signal.SIGKILL)  # and with it all in its namespace
    with contextlib.suppress(OSError):
        os.write(end, str(_status(child)).encode())
    return 0


def _job(arguments: list[str], folder: str, log: int) -> int:
    """``job.main`` as if it had been started anew: of the template it has but the modules."""
    _call("prctl", PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    _call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.closerange(3, log)
    os.closerange(log + 1, 1024)
    os.set_inheritable(log, False)
    _process_list()
    os.chdir(folder)
    os.environ["TMPDIR"], tempfile.tempdir = folder, None
    from .job import main as run

    try:
        return run(arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _namespaces(runtime: Path) -> None:
    """A mount namespace, with a small file system in memory at ``runtime``, and one of processes
    for the next child. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    _call("unshare", NEW_MOUNTS | NEW_PIDS | (NEW_USER if user else 0))
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _mount("none", "/", "", RECURSIVE | SLAVE)
    size = f"size={sandbox.Limits().sockets},mode=0700"
    _mount("tmpfs", str(runtime), "tmpfs", NO_SUID | NO_DEVICES, size)


def _process_list() -> None:
    """A /proc of this namespace's processes. Raises OSError."""
    _mount("proc", "/proc", "proc", NO_SUID | NO_DEVICES | NO_EXEC)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    _call("mount", source.encode(), os.fsencode(target), kind.encode(), flags, data.encode())


def _call(name: str, *arguments: int | bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    given = [ctypes.c_ulong(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments]
    if getattr(libc, name)(*given) != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
