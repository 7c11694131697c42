"""Chat templates: rendered as transformers does, in a sandbox."""

from __future__ import annotations

import pytest

from minisgl_lite.models import Tokenizer, open_model
from minisgl_lite.models.chat import render_chat

HI = [{"role": "user", "content": "hi"}]


def render(template: str) -> str:
    return render_chat(template, HI, True, {"bos_token": "<s>"})


def test_the_real_template_adds_its_system_prompt(tokenizer: Tokenizer) -> None:
    assert tokenizer.apply_chat_template(HI) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_the_generation_prompt_can_be_left_away(tokenizer: Tokenizer) -> None:
    assert tokenizer.apply_chat_template(HI, add_generation_prompt=False).endswith("<|im_end|>\n")


def test_a_model_without_template_says_so() -> None:
    with pytest.raises(ValueError, match="no chat template"):
        open_model("tiny").tokenizer().apply_chat_template(HI)


def test_special_tokens_and_helpers_are_there() -> None:
    assert render("{{ bos_token }}{{ messages | tojson }}") == f"<s>{HI!r}".replace("'", '"')
    assert render("{{ strftime_now('%Y') }}").isdigit()
    assert render("{% for m in messages %}{{ m.content }}{% break %}{% endfor %}") == "hi"


def test_blocks_leave_no_blank_lines() -> None:
    assert render("  {% if true %}\nyes\n  {% endif %}\n") == "yes\n"


def test_a_template_may_refuse_its_messages() -> None:
    with pytest.raises(ValueError, match="refuses: roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


@pytest.mark.parametrize(
    "template", ["{% if %}", "{{ messages[0].missing.deeper }}", "{{ 1 + '' }}"]
)
def test_a_broken_template_is_one_error(template: str) -> None:
    with pytest.raises(ValueError, match="can't be rendered"):
        render(template)


@pytest.mark.parametrize(
    "template",
    ["{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ messages.append(1) }}"],
)
def test_a_template_can_neither_reach_python_nor_change_the_messages(template: str) -> None:
    with pytest.raises(ValueError, match="can't be rendered"):
        render(template)
    assert len(HI) == 1
