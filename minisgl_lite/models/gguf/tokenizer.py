"""Builds the tokenizer that a GGUF file describes in its metadata."""

from __future__ import annotations

from typing import Any, NamedTuple

from minisgl_lite.models.bpe import BPETokenizer
from minisgl_lite.utils import require

from .reader import GGUFFile

_CONTROL, _USER_DEFINED = 3, 4  # token types in the file

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class _Pre(NamedTuple):
    """How text is cut before the merges. ``words``: a regular expression, None for GPT-2's own."""

    digits: bool = False
    words: str | None = None
    ignore_merges: bool = False
    nfc: bool = False
    add_bos: bool = False


# By the name in tokenizer.ggml.pre, which stands for rules that the file itself doesn't hold.
PRE_TOKENIZERS = {
    "smollm": _Pre(digits=True),
    "gpt-2": _Pre(),
    "llama-bpe": _Pre(words=_WORDS % "{1,3}", ignore_merges=True, add_bos=True),
    "qwen2": _Pre(words=_WORDS % "", nfc=True),
}


def _metadata(file: GGUFFile, key: str, default: Any = None) -> Any:
    value = file.metadata.get(f"tokenizer.ggml.{key}", default)
    if value is None:
        raise ValueError(f"{file.path}: metadata tokenizer.ggml.{key} is missing.")
    return value


def _pre_tokenizer(pre: _Pre) -> Any:
    library = require("tokenizers", extra="book")
    cutters = library.pre_tokenizers
    steps: list[Any] = [cutters.Digits(individual_digits=True)] if pre.digits else []
    if pre.words is not None:
        steps.append(cutters.Split(library.Regex(pre.words), behavior="isolated"))
    steps.append(cutters.ByteLevel(add_prefix_space=False, use_regex=pre.words is None))
    return cutters.Sequence(steps)


def _backend(file: GGUFFile, pre: _Pre) -> Any:
    """A ``tokenizers.Tokenizer`` with the file's vocabulary, merges and added tokens."""
    library = require("tokenizers", extra="book")
    tokens = _metadata(file, "tokens")
    merges = [tuple(merge.split(" ")) for merge in _metadata(file, "merges")]
    vocab = {token: i for i, token in enumerate(tokens)}
    model = library.models.BPE(vocab=vocab, merges=merges, ignore_merges=pre.ignore_merges)
    backend = library.Tokenizer(model)
    if pre.nfc:
        backend.normalizer = library.normalizers.NFC()
    backend.pre_tokenizer = _pre_tokenizer(pre)
    backend.decoder = library.decoders.ByteLevel()
    added = [
        library.AddedToken(token, normalized=False, special=kind == _CONTROL)
        for token, kind in zip(tokens, _metadata(file, "token_type", []), strict=False)
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    backend.add_tokens(added)
    return backend


def tokenizer_from_gguf(file: GGUFFile) -> BPETokenizer:
    """The file's tokenizer.

    Raises:
        ValueError: a kind of tokenizer or pre-tokenizer that is not supported.
    """
    model, name = _metadata(file, "model"), file.metadata.get("tokenizer.ggml.pre", "gpt-2")
    if model != "gpt2" or name not in PRE_TOKENIZERS:
        raise ValueError(
            f"{file.path}: tokenizer {model!r} with pre-tokenizer {name!r} is not supported;"
            f" supported: 'gpt2' with {', '.join(PRE_TOKENIZERS)}."
        )
    pre, tokens = PRE_TOKENIZERS[name], _metadata(file, "tokens")
    ids = {
        kind: file.metadata[f"tokenizer.ggml.{kind}_token_id"]
        for kind in ("bos", "eos")
        if f"tokenizer.ggml.{kind}_token_id" in file.metadata
    }
    add_bos = _metadata(file, "add_bos_token", pre.add_bos)
    return BPETokenizer(
        _backend(file, pre),
        eos_token_ids=eos_token_ids(file),
        chat_template=file.metadata.get("tokenizer.chat_template"),
        special_tokens={f"{kind}_token": tokens[i] for kind, i in ids.items()},
        bos_id=ids.get("bos") if add_bos else None,
    )


def eos_token_ids(file: GGUFFile) -> tuple[int, ...]:
    """The ids that end an answer: end of sequence, and end of turn where the file has one."""
    keys = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
    return tuple(dict.fromkeys(file.metadata[key] for key in keys if key in file.metadata))
