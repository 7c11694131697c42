"""What every tokenizer offers, and the byte tokenizer of the tiny model."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from .chat import render_chat

Message = Mapping[str, str]


class Tokenizer(ABC):
    """Text to token ids and back. Ids lie in ``range(vocab_size)``.

    ``special_ids`` are ids that stand for no text of their own (roles, end of sequence);
    ``eos_token_ids`` are those that end an answer. ``chat_template`` is a jinja2 template or None.
    """

    vocab_size: int
    eos_token_ids: tuple[int, ...] = ()
    special_ids: frozenset[int] = frozenset()
    chat_template: str | None = None

    @abstractmethod
    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The ids of ``text``; special tokens spelled out in it count as such.

        ``add_special_tokens=False`` leaves away what some models put around a plain prompt.

        Raises:
            ValueError: the text can't be written as UTF-8 (a lone surrogate).
        """

    @abstractmethod
    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that token adds to the text; a token may hold part of a character.

        Raises:
            ValueError: an id outside the vocabulary.
        """

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """The text of ``ids``; bytes that are no UTF-8 become U+FFFD.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        hidden = self.special_ids if skip_special_tokens else frozenset()
        raw = b"".join(self.token_bytes(i) for i in ids if i not in hidden)
        return raw.decode("utf-8", "replace")

    def apply_chat_template(
        self, messages: Sequence[Message], add_generation_prompt: bool = True
    ) -> str:
        """A conversation as the text the model was trained on.

        Encode it with ``add_special_tokens=False``: the template has put them in.

        Raises:
            ValueError: the model has no template, or the template refuses the messages.
        """
        if self.chat_template is None:
            raise ValueError("this model has no chat template; give it plain text (--raw).")
        tokens = self.special_tokens()
        return render_chat(self.chat_template, messages, add_generation_prompt, tokens)

    def special_tokens(self) -> dict[str, str]:
        """The texts that a chat template may ask for: ``bos_token``, ``eos_token``."""
        return {}

    def stream_decoder(self) -> StreamDecoder:
        return StreamDecoder(self)

    def _check_id(self, token_id: int) -> None:
        if not 0 <= token_id < self.vocab_size:
            raise ValueError(
                f"token id {token_id} is not in the vocabulary: 0 .. {self.vocab_size - 1}."
            )


class StreamDecoder:
    """Text of a growing answer, whole characters only: a torn one waits for its other bytes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token_id: int) -> str:
        """The text that this token completes, maybe none."""
        return self._decoder.decode(self._tokenizer.token_bytes(token_id))

    def finish(self) -> str:
        """What is left at the end: U+FFFD if the last character never came whole."""
        return self._decoder.decode(b"", final=True)


def encode_utf8(text: str) -> bytes:
    """The bytes of ``text``; a lone surrogate, as from a torn command line, is named."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise ValueError(
            f"character {error.start} of the text, U+{code:04X}, is not text."
        ) from None


class ByteTokenizer(Tokenizer):
    """Token i is byte i; 256 is the begin, 257 the end of a sequence."""

    BOS, EOS = 256, 257

    vocab_size = 258
    eos_token_ids = (EOS,)
    special_ids = frozenset({BOS, EOS})

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return list(encode_utf8(text))

    def token_bytes(self, token_id: int) -> bytes:
        self._check_id(token_id)
        return {self.BOS: b"<bos>", self.EOS: b"<eos>"}.get(token_id) or bytes([token_id])
