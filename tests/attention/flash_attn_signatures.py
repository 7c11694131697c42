"""The two functions of flash-attn that we call, as data, and how to read them from a package.

    python tests/attention/flash_attn_signatures.py FOLDER_OF_THE_PACKAGE VERSION

prints the data of a package that was unpacked or installed without its CUDA part: it is parsed, not
imported. ``flash_attn_signatures.json`` holds what that printed.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FUNCTIONS = ("flash_attn_varlen_func", "flash_attn_with_kvcache")
DATA = Path(__file__).with_suffix(".json")

Parameters = list[str]
"""``name`` of what must be given, ``name=default`` of what may be left out."""


def recorded() -> dict[str, Any]:
    """{"version": …, function: its parameters}."""
    data: dict[str, Any] = json.loads(DATA.read_text())
    return data


def signatures_in(package: Path) -> dict[str, Parameters]:
    """From ``flash_attn_interface.py`` in the folder of a package."""
    tree = ast.parse((package / "flash_attn_interface.py").read_text())
    return {
        node.name: _of_node(node)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS
    }


def signature_of(function: Callable[..., Any]) -> Parameters:
    """The same for a function of ours."""
    return [
        p.name if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in inspect.signature(function).parameters.values()
    ]


def _of_node(node: ast.FunctionDef) -> Parameters:
    args, defaults = node.args.args, node.args.defaults
    required = len(args) - len(defaults)
    return [arg.arg for arg in args[:required]] + [
        f"{arg.arg}={ast.literal_eval(default)!r}"
        for arg, default in zip(args[required:], defaults, strict=True)
    ]


if __name__ == "__main__":
    found = {"version": sys.argv[2], **signatures_in(Path(sys.argv[1]))}
    print(json.dumps(found, indent=1))
