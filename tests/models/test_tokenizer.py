"""Tokenizers: bytes of tokens, streams without torn characters, and errors."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from minisgl_lite.models import Tokenizer, open_model
from minisgl_lite.models.bpe import byte_of_char, sentencepiece_bytes
from minisgl_lite.models.gguf import GGUFFile, tokenizer_from_gguf
from minisgl_lite.models.gguf.tokenizer import PRE_TOKENIZERS
from minisgl_lite.models.tokenizer import ByteTokenizer
from tests.models.checkpoints import BASE, write_folder

TEXTS = ["", "Hello, world", "naïve 日本語 👩‍👩‍👧", "a\n\n\tb  12", "\x00\x7f", "<|im_end|>"]


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_are_the_tiny_models_tokens(text: str) -> None:
    tokenizer = open_model("tiny").tokenizer()
    ids = tokenizer.encode(text)
    assert ids == list(text.encode())
    assert tokenizer.decode(ids) == text


def test_the_tiny_models_specials_are_beyond_the_bytes() -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.special_ids == {256, 257}
    assert tokenizer.eos_token_ids == (257,)
    assert tokenizer.decode([72, 105, 257]) == "Hi<eos>"
    assert tokenizer.decode([72, 105, 257], skip_special_tokens=True) == "Hi"


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_the_real_tokenizer(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert b"".join(tokenizer.token_bytes(i) for i in ids) == text.encode()


def test_decoding_equals_joining_the_bytes_of_the_tokens(tokenizer: Tokenizer) -> None:
    rng = random.Random(0)
    for _ in range(500):
        ids = [rng.randrange(tokenizer.vocab_size) for _ in range(6)]
        joined = b"".join(tokenizer.token_bytes(i) for i in ids)
        assert tokenizer.decode(ids) == joined.decode("utf-8", "replace")


def test_every_token_of_the_real_vocabulary_has_bytes(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size == 49152
    assert all(tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size))


def test_spelled_out_special_tokens_count_as_such(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("<|im_end|>") == [2]
    assert tokenizer.special_ids == frozenset(range(17))
    assert tokenizer.token_bytes(2) == b"<|im_end|>"
    assert tokenizer.decode([2, 33], skip_special_tokens=True) == "1"


def test_a_torn_character_waits_for_its_bytes(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("語")
    assert len(ids) == 3
    stream = tokenizer.stream_decoder()
    assert [stream.feed(i) for i in ids] == ["", "", "語"]
    assert stream.finish() == ""


def test_a_character_that_never_comes_whole_is_marked_at_the_end(tokenizer: Tokenizer) -> None:
    stream = tokenizer.stream_decoder()
    assert stream.feed(tokenizer.encode("語")[0]) == ""
    assert stream.finish() == "\ufffd"


@pytest.mark.parametrize("text", TEXTS)
def test_streamed_pieces_make_the_text(tokenizer: Tokenizer, text: str) -> None:
    for each in (tokenizer, ByteTokenizer()):
        stream = each.stream_decoder()
        pieces = [stream.feed(i) for i in each.encode(text)]
        assert "".join(pieces) + stream.finish() == text
        assert not any("\ufffd" in piece for piece in pieces)


@pytest.mark.parametrize("token_id", [-1, 49152, 10**9])
def test_ids_outside_the_vocabulary_are_refused(tokenizer: Tokenizer, token_id: int) -> None:
    with pytest.raises(ValueError, match=f"{token_id} is not in the vocabulary: 0 .. 49151"):
        tokenizer.token_bytes(token_id)
    with pytest.raises(ValueError, match=f"{token_id} is not"):
        tokenizer.decode([1, token_id])
    with pytest.raises(ValueError, match=r"0 .. 257"):
        ByteTokenizer().token_bytes(token_id)


def test_a_lone_surrogate_is_refused(tokenizer: Tokenizer) -> None:
    for each in (tokenizer, ByteTokenizer()):
        with pytest.raises(ValueError, match=r"character 1 of the text, U\+DCFF"):
            each.encode("a\udcff")


def test_the_gpt2_alphabet_covers_each_byte_once() -> None:
    assert sorted(byte_of_char().values()) == list(range(256))
    assert byte_of_char()["Ġ"] == 0x20 and byte_of_char()["Ċ"] == 0x0A


def test_sentencepiece_tokens_spell_spaces_and_bytes() -> None:
    assert sentencepiece_bytes("▁the") == b" the"
    assert sentencepiece_bytes("<0x0A>") == b"\n"


def pre_tokenized(name: str, text: str) -> list[str]:
    """How ``text`` is cut by the rules of that name, in the alphabet of the vocabulary."""
    from minisgl_lite.models.gguf.tokenizer import _pre_tokenizer

    return [piece for piece, _ in _pre_tokenizer(PRE_TOKENIZERS[name]).pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("smollm", ["it", "'s", "ĠĠ", "1", "2", "3", "4", "!"]),
        ("gpt-2", ["it", "'s", "Ġ", "Ġ1234", "!"]),
        ("llama-bpe", ["it", "'s", "Ġ", "Ġ", "123", "4", "!"]),
        ("qwen2", ["it", "'s", "Ġ", "Ġ", "1", "2", "3", "4", "!"]),
    ],
)
def test_pre_tokenizers_cut_as_their_models_do(name: str, pieces: list[str]) -> None:
    assert pre_tokenized(name, "it's  1234!") == pieces


def file_with(metadata: dict[str, Any]) -> GGUFFile:
    file = GGUFFile.__new__(GGUFFile)
    file.path = "m.gguf"
    file.metadata = {f"tokenizer.ggml.{key}": value for key, value in metadata.items()}
    return file


GOOD = {
    "model": "gpt2",
    "tokens": ["<s>", "a", "b", "ab"],
    "token_type": [3, 1, 1, 1],
    "merges": ["a b"],
    "bos_token_id": 0,
}


def test_a_begin_token_is_put_where_the_file_asks_for_it() -> None:
    plain = tokenizer_from_gguf(file_with(GOOD))
    begun = tokenizer_from_gguf(file_with(GOOD | {"add_bos_token": True}))
    assert plain.encode("ab") == [3]
    assert begun.encode("ab") == [0, 3]
    assert begun.encode("ab", add_special_tokens=False) == [3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "llama"}, r"'llama' with pre-tokenizer 'gpt-2' is not supported.*smollm"),
        ({"pre": "tekken"}, "'tekken' is not supported"),
        ({"merges": ["a c"]}, "can't be built"),
        ({"merges": ["abc"]}, "can't be built"),
        ({"merges": None}, r"merges is missing, expected list"),
        ({"tokens": [1, 2]}, r"tokens is no list of str"),
        ({"bos_token_id": 9}, r"bos token id 9 is not in 0\.\.3"),
    ],
)
def test_a_broken_or_foreign_tokenizer_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        tokenizer_from_gguf(file_with(GOOD | change))
    assert str(caught.value).startswith("m.gguf: ")


def byte_level_folder(path: Path) -> Path:
    """A folder whose tokenizer.json is a byte-level BPE with two special tokens."""
    import tokenizers as library

    backend = library.Tokenizer(library.models.BPE(vocab={}, merges=[]))
    backend.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
    )
    backend.train_from_iterator(["the cache of the pages, naïve 日本"] * 5, trainer)
    write_folder(path, BASE | {"eos_token_id": 1})
    backend.save(str(path / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": {"content": "</s>"},
        "chat_template": "{{ bos_token }}{{ messages[0]['content'] }}{{ eos_token }}",
    }
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path


def test_a_folders_tokenizer_and_template_are_read(tmp_path: Path) -> None:
    tokenizer = open_model(str(byte_level_folder(tmp_path))).tokenizer()
    text = tokenizer.apply_chat_template([{"role": "user", "content": "the page 語"}])
    assert text == "<s>the page 語</s>"
    ids = tokenizer.encode(text)
    assert (ids[0], ids[-1]) == (0, 1)
    assert tokenizer.decode(ids) == text
    assert b"".join(tokenizer.token_bytes(i) for i in ids) == text.encode()
    assert tokenizer.eos_token_ids == (1,)


def test_a_template_may_stand_in_a_file_or_among_named_ones(tmp_path: Path) -> None:
    folder = byte_level_folder(tmp_path)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = [{"name": "default", "template": "named"}]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert open_model(str(folder)).tokenizer().chat_template == "named"
    (folder / "chat_template.jinja").write_text("from a file")
    assert open_model(str(folder)).tokenizer().chat_template == "from a file"
