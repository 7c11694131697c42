"""A checkpoint folder: config.json, *.safetensors and, if it has one, a tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from minisgl_lite.utils import require

from .bpe import BPETokenizer
from .config import ModelConfig
from .register import SUPPORTED_MODELS
from .safetensors import SafetensorsFolder
from .source import ModelSource
from .tokenizer import Tokenizer
from .weight import load_weight


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds no JSON object.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}.") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: holds a {type(content).__name__}, expected a JSON object.")
    return content


class FolderSource(ModelSource):
    """A folder as transformers writes it.

    Raises:
        FileNotFoundError: config.json is missing.
        ValueError: a configuration that is broken or not supported.
    """

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        self.path = Path(path)
        self.name = name or str(path)
        hf = read_json(self.path / "config.json")
        try:
            self.whole_config = ModelConfig.from_hf(hf)
            SUPPORTED_MODELS.assert_supported(self.whole_config.architectures[:1])
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None
        self.eos_token_ids = _as_ids(self._generation_config().get("eos_token_id"))
        self.eos_token_ids = self.eos_token_ids or _as_ids(hf.get("eos_token_id"))

    def _generation_config(self) -> dict[str, Any]:
        path = self.path / "generation_config.json"
        return read_json(path) if path.is_file() else {}

    def state_dict(self, dtype: torch.dtype, device: torch.device) -> dict[str, torch.Tensor]:
        return load_weight(SafetensorsFolder(self.path), self.whole_config, dtype, device)

    def _make_tokenizer(self) -> Tokenizer:
        path = self.path / "tokenizer.json"
        if not path.is_file():
            raise ValueError(f"{path} is missing: this model takes token ids only.")
        backend = require("tokenizers", extra="book").Tokenizer.from_file(str(path))
        options = self.path / "tokenizer_config.json"
        settings = read_json(options) if options.is_file() else {}
        return BPETokenizer(
            backend,
            eos_token_ids=self.eos_token_ids,
            chat_template=self._chat_template(settings),
            special_tokens=_special_tokens(settings),
        )

    def _chat_template(self, settings: dict[str, Any]) -> str | None:
        """A file of its own, or an entry that is one template or a list of named ones."""
        path = self.path / "chat_template.jinja"
        if path.is_file():
            return path.read_text(encoding="utf-8")
        template = settings.get("chat_template")
        if isinstance(template, list):
            named = {entry["name"]: entry["template"] for entry in template}
            template = named.get("default")
        return template


def _as_ids(value: Any) -> tuple[int, ...]:
    """None, one id or several."""
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(value)


def _special_tokens(settings: dict[str, Any]) -> dict[str, str]:
    """The texts of bos and eos, written as a string or as an object with its ``content``."""
    found = {kind: settings.get(kind) for kind in ("bos_token", "eos_token")}
    return {
        kind: token["content"] if isinstance(token, dict) else token
        for kind, token in found.items()
        if token is not None
    }
