"""The walls around a stranger's kernel: bubblewrap, prlimit, and an account without rights.

``python -m minisgl_lite.grade.sandbox CONNECTION_FILE`` is the program of a kernelspec: it becomes
ipykernel inside the walls. Inside there is the system read-only, the Python environment read-only,
an empty work folder and one folder of sockets; no network, no loopback, no process of the host, no
other submission and nothing of the grader. The kernel speaks over Unix sockets (``ipc``), because
a sandbox without network has no ports.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534
ACCOUNTS = range(61184, 65520)
"""User ids that systemd sets aside for passing accounts. Limits of processes count by account, so
each kernel has one of its own."""
SYSCALLS = Path(__file__).with_name("syscalls.py")
"""Run inside by its text: the grader's own package isn't there."""
LEARNER = "MINISGL_LITE_LEARNER"
"""Environment variable: the folder of the learner distribution."""


@dataclass(frozen=True)
class Limits:
    """What one kernel may use; its wall-clock time is the grader's to watch."""

    memory: int = 6 * 2**30
    cpu_seconds: int = 300
    processes: int = 128
    file_size: int = 64 * 2**20
    open_files: int = 256
    work_folder: int = 256 * 2**20
    shared_memory: int = 64 * 2**20
    sockets: int = 8 * 2**20


def missing() -> list[str]:
    """The programs that the walls need and this host lacks."""
    return [name for name in ("bwrap", "prlimit", "setpriv") if shutil.which(name) is None]


def command(
    connection_file: Path, learner: Path, limits: Limits = Limits(), account: int = NOBODY
) -> list[str]:
    """The command line of a kernel behind walls.

    ``connection_file``: in a folder that holds nothing but this kernel's sockets.

    Raises:
        ValueError: the folder of the connection file isn't a private one.
    """
    kernel = [sys.executable, "-m", "ipykernel_launcher", "-f", str(connection_file)]
    inside = walls(connection_file.parent, learner, limits, account)
    return [*inside, *kernel, "--HistoryManager.enabled=False"]


def walls(
    runtime: Path, learner: Path, limits: Limits = Limits(), account: int = NOBODY
) -> list[str]:
    """What stands before a program that is to run inside; it may write into ``runtime``.

    Raises:
        ValueError: ``runtime`` isn't a folder for one kernel's sockets alone.
    """
    if not runtime.name.startswith("kernel-"):
        raise ValueError(f"{runtime} is not a folder for one kernel's sockets alone.")
    folders = {Path(sys.prefix), Path(sys.base_prefix), learner.resolve(), runtime}
    return [
        *_limits(limits),
        *("bwrap", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"),
        *_namespaces(),
        *_environment(learner),
        *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin"),
        *("--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"),
        *("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", str(limits.shared_memory), "--tmpfs", "/dev/shm"),
        *("--remount-ro", "/dev"),
        *("--perms", "1777", "--size", str(limits.work_folder), "--tmpfs", "/tmp"),
        *_parents(folders),
        *_readable(learner),
        *("--bind", str(runtime), str(runtime), "--remount-ro", "/", "--chdir", "/tmp", "--"),
        *_account(account),
        # Here and not with the other limits: outside, all that its owner runs would count, too.
        *("prlimit", f"--nproc={limits.processes}", "--"),
        *(sys.executable, "-I", "-S", "-c", SYSCALLS.read_text(encoding="utf-8")),
    ]


def around_job(runtime: Path, limits: Limits = Limits()) -> list[str]:
    """What stands before a job that will start a kernel with its sockets in ``runtime``.

    The folder becomes one in memory, of limited size: it is the one place of the host that the
    kernel can write to. All that the job starts ends with it, and it ends with who started it.
    """
    # Root needs its rights to hand the folder over; anybody else's bubblewrap refuses to have any.
    rights = ["--cap-add", "ALL"] if os.getuid() == 0 else []
    return [
        *("bwrap", "--die-with-parent", *rights, "--unshare-pid"),
        *("--dev-bind", "/", "/", "--proc", "/proc"),
        *("--perms", "0700", "--size", str(limits.sockets), "--tmpfs", str(runtime), "--"),
    ]


def _limits(limits: Limits) -> list[str]:
    return [
        "prlimit",
        f"--as={limits.memory}",
        f"--cpu={limits.cpu_seconds}",
        f"--fsize={limits.file_size}",
        f"--nofile={limits.open_files}",
        "--core=0",
        "--",
    ]


def _namespaces() -> list[str]:
    """All but the user's own when root runs this: process limits don't hold for a mapped root."""
    shared = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    if os.getuid() != 0:
        return ["--unshare-user", *shared, "--unshare-cgroup-try"]
    keep = ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"]
    return [*shared, "--unshare-cgroup-try", *(arg for cap in keep for arg in ("--cap-add", cap))]


def _account(account: int) -> list[str]:
    """From root to an account without rights, for good."""
    if os.getuid() != 0:
        return []
    ids = [f"--reuid={account}", f"--regid={account}", "--clear-groups", "--no-new-privs"]
    return ["setpriv", *ids, "--bounding-set=-all", "--inh-caps=-all"]


def _environment(learner: Path) -> list[str]:
    variables = {
        "PATH": f"{sys.prefix}/bin:/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "MINISGL_LITE_CC": "",  # C kernels would be compiled anew for each submission
        "LD_LIBRARY_PATH": f"{sys.base_prefix}/lib",
        "PYTHONPATH": str(learner.resolve()),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NBGRADER_EXECUTION": "autograde",
    }
    if judge := os.environ.get("MINISGL_LITE_JUDGE"):
        variables["MINISGL_LITE_JUDGE"] = judge
    return [arg for pair in variables.items() for arg in ("--setenv", *pair)]


def _parents(folders: set[Path]) -> list[str]:
    """Folders on the way to those that are bound; an account without rights must pass them."""
    ways = sorted({way for folder in folders for way in folder.parents}, key=lambda p: len(p.parts))
    system = {Path("/"), Path("/usr"), Path("/tmp"), Path("/proc"), Path("/dev")}
    return [
        arg for way in ways if way not in system for arg in ("--perms", "0755", "--dir", str(way))
    ]


def _readable(learner: Path) -> list[str]:
    """The Python environment without this package's own copy in it, and the learner's."""
    folders = dict.fromkeys(Path(folder) for folder in (sys.base_prefix, sys.prefix))
    arguments = [arg for f in folders for arg in ("--ro-bind", str(f), str(f))]
    ours = Path(__file__).resolve().parents[1]
    copies = {ours} if any(folder in ours.parents for folder in folders) else set()
    for folder in folders:
        copies |= set(folder.glob("lib*/python*/*-packages/minisgl_lite"))
    arguments += [arg for copy in sorted(copies) for arg in ("--tmpfs", str(copy))]
    learner = learner.resolve()
    return [*arguments, "--ro-bind", str(learner), str(learner)]


def hand_over(connection_file: Path) -> int:
    """Let an account without rights use the folder of sockets; returns the account.

    Only the connection file becomes its own. What else lies there is neither changed nor followed:
    an earlier kernel may have left links.
    """
    if os.getuid() != 0:
        return NOBODY
    account = secrets.choice(ACCOUNTS)
    try:
        os.chown(connection_file, account, account, follow_symlinks=False)
    except OSError:  # a container that knows fewer accounts
        account = NOBODY
        os.chown(connection_file, account, account, follow_symlinks=False)
    os.chmod(connection_file.parent, 0o1777)
    return account


def main() -> None:
    """Become the kernel."""
    connection_file = Path(sys.argv[1])
    account = hand_over(connection_file)
    with contextlib.suppress(OSError):  # where memory runs out, the kernel goes first
        Path("/proc/self/oom_score_adj").write_text("1000")
    arguments = command(connection_file, Path(os.environ[LEARNER]), account=account)
    # Nothing that it writes there stands in the grader's own log.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.closerange(3, 1024)
    os.execvp(arguments[0], arguments)


if __name__ == "__main__":
    main()
