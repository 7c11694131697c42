"""Finding and importing a clone: a made-up one, smaller than mini-sglang, in a process apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from minisgl_lite.teaching.clone import PATH_VARIABLE, find_clone, load_minisgl
from tests.teaching.sides import minisgl

FILES = {
    "core.py": "_GLOBAL_CTX = None\nclass Context:\n    def __init__(self, page_size): pass\n",
    "message.py": "",
    "distributed.py": "info = []\ndef try_get_tp_info(): return None\n"
    "def set_tp_info(rank, size): info.append((rank, size))\n",
    "utils/__init__.py": "from .mp import ZmqPullQueue\nimport logging\n",
    "utils/mp.py": "import no_such_module\n",
    "engine/__init__.py": "import no_such_module\n",
    "kvcache/__init__.py": "",
    "kvcache/radix_cache.py": "import time\nimport minisgl.utils\n",
    "scheduler/__init__.py": "from minisgl.engine import EngineConfig\n",
    "scheduler/prefill.py": "import logging\nlogger = logging.getLogger(__name__)\n",
    "scheduler/scheduler.py": "import logging, torch\nlogger = logging.getLogger(__name__)\n"
    "def pinned():\n"
    "    from minisgl.kernel import fast_compare_key\n"
    "    made = torch.empty(2, dtype=torch.int32, pin_memory=True)\n"
    "    same = torch.tensor([1, 2, 3], pin_memory=True).pin_memory()\n"
    "    return len(made), fast_compare_key(same, torch.tensor([1, 2, 4]))\n",
}


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / "python" / "minisgl" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def run_apart(code: str) -> str:
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_path_is_an_error_that_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PATH_VARIABLE, raising=False)
    with pytest.raises(ValueError, match=f"set {PATH_VARIABLE}"):
        find_clone()


def test_a_folder_without_a_clone_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no mini-sglang"):
        find_clone(tmp_path)


def test_the_clone_or_its_python_folder_will_do(
    made_up: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_clone(made_up) == find_clone(made_up / "python") == made_up / "python"
    monkeypatch.setenv(PATH_VARIABLE, str(made_up))
    assert find_clone() == made_up / "python"


def test_its_code_runs_with_no_gpu_and_what_is_missing_stands_in(made_up: Path) -> None:
    """And nothing of it is imported before it is asked for; torch is itself again afterwards."""
    code = (
        "import sys, torch\n"
        "import minisgl_lite.teaching.reference\n"
        "from minisgl_lite.teaching.clone import load_minisgl\n"
        "print([name for name in sys.modules if name.split('.')[0] == 'minisgl'])\n"
        "before = torch.empty, torch.tensor, torch.Tensor.pin_memory\n"
        f"m = load_minisgl({str(made_up)!r})\n"
        "assert load_minisgl(m.root) is m\n"
        "try:\n"
        "    with m.on_a_cpu(iter([5]).__next__):\n"
        "        print(m.scheduler.pinned(), m.radix_cache.time.monotonic_ns())\n"
        "        raise KeyError\n"
        "except KeyError:\n"
        "    pass\n"
        "print(m.radix_cache.time.__name__, m.core._GLOBAL_CTX)\n"
        "print(before == (torch.empty, torch.tensor, torch.Tensor.pin_memory))\n"
    )
    assert run_apart(code).splitlines() == ["[]", "(2, 2) 5", "time None", "True"]


def test_another_minisgl_in_the_process_is_an_error(
    made_up: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "minisgl", ModuleType("minisgl"))
    with pytest.raises(RuntimeError, match="imported from somewhere else already; use a fresh"):
        load_minisgl(made_up)


@pytest.mark.reference
def test_the_real_clone_is_the_commit_we_mirror() -> None:
    modules = minisgl()
    with modules.on_a_cpu(int), modules.current(4):
        assert modules.core.get_global_ctx().page_size == 4
        assert torch.empty(1, pin_memory=True).shape == (1,)
    assert modules.core._GLOBAL_CTX is None


def test_a_clone_that_fails_to_import_leaves_the_way_free_for_another(
    made_up: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    broken = tmp_path_factory.mktemp("broken")
    (broken / "minisgl" / "scheduler").mkdir(parents=True)
    (broken / "minisgl" / "scheduler" / "scheduler.py").write_text("")
    code = f"""
from minisgl_lite.teaching.clone import load_minisgl
try:
    load_minisgl({str(broken)!r})
except ImportError as error:
    print(error)
print(load_minisgl({str(made_up)!r}).root)
"""
    said = run_apart(code).splitlines()
    assert said == ["No module named 'minisgl.core'", str(made_up / "python")]
