"""Token ids against transformers, which builds its tokenizer from the same file."""

from __future__ import annotations

import random
from typing import Any

import pytest

from minisgl_lite.models import Tokenizer
from minisgl_lite.models.gguf import find_smollm2

pytestmark = pytest.mark.oracle

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "It's we'll I'M don't 'quoted'",
    "  two  spaces   and\ttabs\n\nand lines \n ",
    "naïve café Ünïcödé Straße",
    "日本語のテキストと漢字、中文字符",
    "مرحبا بالعالم שלום עולם",
    "emoji 👩‍👩‍👧 🎉 e\u0301",
    "def f(x):\n    return x**2  # squared\n",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "a<|endoftext|>b <|im_end|> <|not_special|>",
    "\u00a0nbsp\u3000ideographic\u200bzero",
    "x" * 300,
    "\x00\x01\x7f",
    "mixed123abc456 7,890.12",
    "",
]
# transformers leaves out the rule that cuts digits off before anything else, which this vocabulary
# was made with (llama.cpp's "smollm"). It matters for blanks before digits and rarer numerals.
DIGITS = ["x  12", "x\n\n12", "½ ² Ⅳ ٣٤", "  1\t2", "a\n1"]


@pytest.fixture(scope="module")
def oracle() -> Any:
    from transformers import AutoTokenizer

    path = find_smollm2()
    return AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)


@pytest.fixture(scope="module")
def oracle_with_digits(oracle: Any) -> Any:
    """transformers' tokenizer with the published rules: digits one by one, then GPT-2's."""
    import copy

    from tokenizers import pre_tokenizers

    mended = copy.deepcopy(oracle)
    mended.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return mended


@pytest.mark.parametrize("text", TEXTS)
def test_ids_equal_transformers(tokenizer: Tokenizer, oracle: Any, text: str) -> None:
    assert tokenizer.encode(text) == oracle.encode(text)


@pytest.mark.parametrize("text", TEXTS + DIGITS)
def test_ids_equal_the_published_rules(
    tokenizer: Tokenizer, oracle_with_digits: Any, text: str
) -> None:
    assert tokenizer.encode(text) == oracle_with_digits.encode(text)


def test_random_text_equals_the_published_rules(
    tokenizer: Tokenizer, oracle_with_digits: Any
) -> None:
    rng = random.Random(7)
    alphabet = "abcdeXYZ  \n\t0123½é日本🎉'.,!-_<|>"
    for _ in range(300):
        text = "".join(rng.choice(alphabet) for _ in range(rng.randrange(60)))
        assert tokenizer.encode(text) == oracle_with_digits.encode(text), repr(text)


def test_decoding_equals_transformers(tokenizer: Tokenizer, oracle: Any) -> None:
    rng = random.Random(8)
    for _ in range(300):
        ids = [rng.randrange(tokenizer.vocab_size) for _ in range(8)]
        assert tokenizer.decode(ids) == oracle.decode(ids)
        shown = tokenizer.decode(ids, skip_special_tokens=True)
        assert shown == oracle.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("last", ["user", "assistant"])
def test_chat_equals_transformers(tokenizer: Tokenizer, oracle: Any, last: str) -> None:
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi\nthere <b>"},
        {"role": last, "content": "Hello!"},
    ]
    for messages in (chat, chat[1:]):
        for ask in (True, False):
            theirs = oracle.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask)
            assert tokenizer.apply_chat_template(messages, ask) == theirs
