"""Renders a checkpoint's chat template, which is foreign code: in jinja2's sandbox."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from minisgl_lite.utils import require


def _raise_exception(message: str) -> NoReturn:
    raise ValueError(f"the chat template refuses: {message}")


def _tojson(value: Any, indent: int | None = None) -> str:
    """Without jinja2's HTML escapes."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def render_chat(
    template: str,
    messages: Sequence[Mapping[str, str]],
    add_generation_prompt: bool,
    special_tokens: Mapping[str, str],
) -> str:
    """The text of a conversation, with the environment that transformers gives a template.

    Raises:
        ValueError: the template is broken, or refuses these messages.
    """
    jinja2 = require("jinja2", extra="book")
    sandbox = require("jinja2.sandbox", extra="book")
    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    try:
        return environment.from_string(template).render(
            messages=messages,
            tools=None,
            documents=None,
            add_generation_prompt=add_generation_prompt,
            **special_tokens,
        )
    except (jinja2.TemplateError, TypeError) as error:
        raise ValueError(f"the chat template can't be rendered: {error}") from error
