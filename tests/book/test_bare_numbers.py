"""Each number in the pages' prose is computed on its page, or bare_numbers.yml says what it is."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.book.bare_numbers import ROOT, bare_numbers, pages

PAGES = pages()


@cache
def reasons() -> dict[str, dict[str, str]]:
    text = Path(__file__).with_name("bare_numbers.yml").read_text(encoding="utf-8")
    loaded: dict[str, dict[str, str]] = yaml.safe_load(text)
    return loaded


def fault(number: str, reason: str) -> str | None:
    """Why the reason does not hold, None when it does."""
    if reason.startswith("= "):
        decimals = len(number.partition(".")[2])
        value = eval(
            reason[2:],
            {"__builtins__": {}},
            {"int": int, "round": round, "range": range, "sum": sum},
        )
        return None if f"{value:.{decimals}f}" == number else f"{number} is not {value}"
    if reason.startswith("in "):
        text = (ROOT / reason[3:]).read_text(encoding="utf-8").replace("_", "").replace(",", "")
        return None if number in text else f"{number} is not {reason}"
    return None


@pytest.mark.parametrize("slug", PAGES)
def test_bare_numbers_have_a_reason_that_holds(slug: str) -> None:
    known = reasons().get(slug, {})
    found = {bare.number: bare for bare in bare_numbers(PAGES[slug])}
    assert [bare for number, bare in found.items() if number not in known] == []
    assert [number for number in known if number not in found] == []  # no longer needed
    assert [why for number, reason in known.items() if (why := fault(number, reason))] == []


def cell(kind: str, source: str, **more: Any) -> dict[str, Any]:
    return {"cell_type": kind, "id": "here", "source": [source], "outputs": [], **more}


def test_a_bare_number_is_found_and_others_are_not() -> None:
    text = (
        "12 slots and 1,024 tokens, {term}`13 pages <page>`, `14`, on 30 November 2026:"
        " 57 %, [this](page-15.html). P = 4.\n\n16. an item"
    )
    output = {"text": ["57\n"]}
    cells = [cell("markdown", text), cell("code", "x = 1_024", outputs=[output])]
    assert [bare.number for bare in bare_numbers(cells)] == ["12", "13"]


def test_a_reason_that_does_not_hold_is_found() -> None:
    assert fault("12", "= 3 * 4") is None and fault("1.14", "= 8 / 7") is None
    assert fault("13", "= 3 * 4") == "13 is not 12"
    assert fault("123456", "in pyproject.toml") == "123456 is not in pyproject.toml"
    assert fault("100", "given") is None
