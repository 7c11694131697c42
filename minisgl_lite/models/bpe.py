"""Tokenizers that the ``tokenizers`` package runs (extra ``book``)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from .tokenizer import Tokenizer, encode_utf8


@cache
def byte_of_char() -> dict[str, int]:
    """GPT-2's alphabet: each byte has a printable character, which vocabularies are written in.

    Bytes that print stand for themselves; the others get the characters from U+0100 on, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    shifted = {chr(0x100 + i): byte for i, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted


def byte_level_bytes(token: str) -> bytes:
    """Undo GPT-2's alphabet: ``Ġthe`` -> ``b" the"``."""
    table = byte_of_char()
    return b"".join(bytes([table[c]]) if c in table else c.encode() for c in token)


def sentencepiece_bytes(token: str) -> bytes:
    """``▁the`` -> ``b" the"``, ``<0x0A>`` -> ``b"\\n"``."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("▁", " ").encode()


class BPETokenizer(Tokenizer):
    """Wraps a ``tokenizers.Tokenizer``.

    ``special_tokens`` are the texts for the chat template; ``bos_id`` is put before a plain prompt
    where the tokenizer itself doesn't.
    """

    def __init__(
        self,
        backend: Any,
        *,
        eos_token_ids: Iterable[int],
        chat_template: str | None = None,
        special_tokens: Mapping[str, str] | None = None,
        bos_id: int | None = None,
    ) -> None:
        self._backend = backend
        self._special_tokens = dict(special_tokens or {})
        self._bos = [] if bos_id is None else [bos_id]
        self.chat_template = chat_template
        self.eos_token_ids = tuple(eos_token_ids)
        added = backend.get_added_tokens_decoder()
        self.special_ids = frozenset(i for i, token in added.items() if token.special)
        self._added = {i: token.content.encode() for i, token in added.items()}
        ids = backend.get_vocab(with_added_tokens=True).values()
        self.vocab_size = max(ids, default=-1) + 1
        # Only byte-level decoders map characters to bytes; the other kind spells spaces as "▁".
        decoder = json.dumps(json.loads(backend.to_str())["decoder"])
        self._to_bytes = byte_level_bytes if '"ByteLevel"' in decoder else sentencepiece_bytes

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        encode_utf8(text)  # the backend's own error is a TypeError
        ids = self._backend.encode(text, add_special_tokens=add_special_tokens).ids
        return [*self._bos, *ids] if add_special_tokens else list(ids)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        ids = list(ids)
        for token_id in ids:
            self._check_id(token_id)
        return str(self._backend.decode(ids, skip_special_tokens=skip_special_tokens))

    def token_bytes(self, token_id: int) -> bytes:
        self._check_id(token_id)
        if token_id in self._added:
            return self._added[token_id]
        token = self._backend.id_to_token(token_id)
        # Some vocabularies have numbers without a token.
        return b"" if token is None else self._to_bytes(token)

    def special_tokens(self) -> dict[str, str]:
        return dict(self._special_tokens)
