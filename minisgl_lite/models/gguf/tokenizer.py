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
    tokens = file.values("tokenizer.ggml.tokens", str)
    merges = [tuple(merge.split(" ")) for merge in file.values("tokenizer.ggml.merges", str)]
    vocab = {token: i for i, token in enumerate(tokens)}
    try:
        model = library.models.BPE(vocab=vocab, merges=merges, ignore_merges=pre.ignore_merges)
    except Exception as error:  # the package has no class of its own for it
        raise ValueError(f"{file.path}: the tokenizer can't be built: {error}") from None
    backend = library.Tokenizer(model)
    if pre.nfc:
        backend.normalizer = library.normalizers.NFC()
    backend.pre_tokenizer = _pre_tokenizer(pre)
    backend.decoder = library.decoders.ByteLevel()
    backend.add_tokens(
        [
            library.AddedToken(token, normalized=False, special=kind == _CONTROL)
            for token, kind in zip(
                tokens, file.values("tokenizer.ggml.token_type", int), strict=False
            )
            if kind in (_CONTROL, _USER_DEFINED)
        ]
    )
    return backend


def _ids(file: GGUFFile, *kinds: str) -> dict[str, int]:
    """The ids that the metadata give to bos, eos and the like, of those kinds that they name."""
    keys = {kind: f"tokenizer.ggml.{kind}_token_id" for kind in kinds}
    return {kind: file.value(key, int) for kind, key in keys.items() if key in file.metadata}


def _special_tokens(file: GGUFFile, ids: dict[str, int]) -> dict[str, str]:
    tokens = file.metadata["tokenizer.ggml.tokens"]
    for kind, i in ids.items():
        if not 0 <= i < len(tokens):
            raise ValueError(f"{file.path}: {kind} token id {i} is not in 0..{len(tokens) - 1}.")
    return {f"{kind}_token": tokens[i] for kind, i in ids.items()}


def tokenizer_from_gguf(file: GGUFFile) -> BPETokenizer:
    """The file's tokenizer.

    Raises:
        ValueError: a tokenizer or pre-tokenizer that is not supported, or is broken.
    """
    model = file.value("tokenizer.ggml.model", str)
    name = file.value("tokenizer.ggml.pre", str, "gpt-2")
    if model != "gpt2" or name not in PRE_TOKENIZERS:
        raise ValueError(
            f"{file.path}: tokenizer {model!r} with pre-tokenizer {name!r} is not supported;"
            f" supported: 'gpt2' with {', '.join(PRE_TOKENIZERS)}."
        )
    pre, ids = PRE_TOKENIZERS[name], _ids(file, "bos", "eos")
    add_bos = file.value("tokenizer.ggml.add_bos_token", bool, pre.add_bos)
    return BPETokenizer(
        _backend(file, pre),
        eos_token_ids=eos_token_ids(file),
        chat_template=file.metadata.get("tokenizer.chat_template"),
        special_tokens=_special_tokens(file, ids),
        bos_id=ids.get("bos") if add_bos else None,
    )


def eos_token_ids(file: GGUFFile) -> tuple[int, ...]:
    """The ids that end an answer: end of sequence, and end of turn where the file has one."""
    return tuple(dict.fromkeys(_ids(file, "eos", "eot").values()))
