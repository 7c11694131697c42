"""From a name to a model: ``open_model``."""

from __future__ import annotations

from pathlib import Path

from minisgl_lite.utils import require

from .folder import FolderSource
from .gguf import GGUFSource, find_smollm2
from .source import ModelSource
from .tiny import open_tiny

_ALLOWED = "'smollm2', 'tiny', 'tiny:SEED', a .gguf file or a folder with config.json"
# What a checkpoint needs here; repositories often hold other formats of the same weights.
_HUB_FILES = ["*.json", "*.safetensors", "*.jinja"]


def open_model(name_or_path: str, *, allow_download: bool = False) -> ModelSource:
    """Open a model by name or path; its weights are read later.

    With ``allow_download`` any other ``OWNER/NAME`` is fetched from the Hugging Face hub, or taken
    from its cache. Nothing is fetched without it.

    Raises:
        FileNotFoundError: a file that is not there.
        ValueError: an unknown name, or a file or folder that can't be used.
    """
    name = str(name_or_path)
    if name == "smollm2":
        return GGUFSource(find_smollm2(), name)
    if name == "tiny" or name.startswith("tiny:"):
        return open_tiny(name)
    if name.endswith(".gguf") or Path(name).is_file():
        return GGUFSource(name)
    if name and Path(name).is_dir():
        return FolderSource(name)
    if _is_hub_name(name):
        return _open_hub(name, allow_download)
    raise ValueError(f"unknown model {name!r}; allowed: {_ALLOWED}.")


def _is_hub_name(name: str) -> bool:
    owner, slash, repository = name.partition("/")
    return bool(owner and slash and repository) and not name.startswith((".", "/", "~"))


def _open_hub(name: str, allow_download: bool) -> ModelSource:
    if not allow_download:
        raise ValueError(
            f"unknown model {name!r}; allowed: {_ALLOWED}. As a name on the Hugging Face hub it"
            " needs allow_download=True (--allow-download)."
        )
    hub = require("huggingface_hub", extra="book")
    try:
        folder = hub.snapshot_download(name, allow_patterns=_HUB_FILES)
    except (OSError, ValueError, hub.errors.HfHubHTTPError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"model {name!r} can't be fetched from the hub: {reason}") from error
    return FolderSource(folder, name)
