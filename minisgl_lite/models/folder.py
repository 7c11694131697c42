"""A checkpoint folder: config.json, *.safetensors and, if it has one, a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from minisgl_lite.utils import require

from .bpe import BPETokenizer
from .config import ModelConfig
from .json_file import IDS, check_kinds, read_json
from .register import SUPPORTED_MODELS
from .safetensors import SafetensorsFolder
from .source import ModelSource
from .tokenizer import Tokenizer
from .weight import load_weight


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
        self.eos_token_ids = self._eos_token_ids("generation_config.json")
        self.eos_token_ids = self.eos_token_ids or self._eos_token_ids("config.json")

    def _eos_token_ids(self, name: str) -> tuple[int, ...]:
        path = self.path / name
        settings = read_json(path) if path.is_file() else {}
        check_kinds(settings, {"eos_token_id": IDS}, str(path))
        return _as_ids(settings.get("eos_token_id"))

    def state_dict(self, dtype: torch.dtype, device: torch.device) -> dict[str, torch.Tensor]:
        return load_weight(SafetensorsFolder(self.path), self.whole_config, dtype, device)

    def _make_tokenizer(self) -> Tokenizer:
        path = self.path / "tokenizer.json"
        if not path.is_file():
            raise ValueError(f"{path} is missing: this model takes token ids only.")
        library = require("tokenizers", extra="book")
        try:
            backend = library.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises no narrower class
            raise ValueError(f"{path}: not a usable tokenizer: {error}.") from None
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
            entries = [entry for entry in template if isinstance(entry, dict)]
            named = {entry.get("name"): entry.get("template") for entry in entries}
            template = named.get("default")
        if template is not None and not isinstance(template, str):
            raise ValueError(
                f"{self.path / 'tokenizer_config.json'}: 'chat_template' is a"
                f" {type(template).__name__}, allowed: a text, or a list of named ones."
            )
        return template


def _as_ids(value: Any) -> tuple[int, ...]:
    """None, one id or several."""
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(value)


def _special_tokens(settings: dict[str, Any]) -> dict[str, str]:
    """The texts of bos and eos, written as a string or as an object with its ``content``."""
    found = {kind: settings.get(kind) for kind in ("bos_token", "eos_token")}
    texts = {
        kind: token.get("content") if isinstance(token, dict) else token
        for kind, token in found.items()
    }
    return {kind: text for kind, text in texts.items() if isinstance(text, str)}
