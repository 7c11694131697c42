"""How large a KV cache gets: the arithmetic, and a calculator that needs no kernel.

The engine imports nothing from here.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

from ...utils import require
from ..assets import join_modules
from .formula import GIB, MODELS, Model, Sizes, free_bytes, sizes

__all__ = ["GIB", "MODELS", "Model", "Sizes", "calculator", "free_bytes", "sizes"]

_FOLDER = Path(__file__).parent
_FIRST = {
    "itemsize": 2,
    "memory_gib": 80,
    "memory_ratio": 0.9,
    "ranks": 1,
    "page_size": 16,
    "input_len": 4000,
    "output_len": 500,
    "rows": 256,
}


@functools.cache
def module_source() -> str:
    """The calculator as one ES module; its default export has ``render``."""
    names = ("formula.js", "view.js")
    return join_modules({name: (_FOLDER / name).read_text(encoding="utf-8") for name in names})


@functools.cache
def calculator_class() -> type[Any]:
    """The widget's class, made on first use, so that the package imports without anywidget."""
    anywidget: Any = require("anywidget", extra="book")
    traitlets: Any = require("traitlets", extra="book")

    class Calculator(anywidget.AnyWidget):
        """Fields and what follows from them. ``values``, ``models``: JSON."""

        _esm = module_source()
        _css = (_FOLDER / "view.css").read_text(encoding="utf-8")
        values = traitlets.Unicode().tag(sync=True)
        models = traitlets.Unicode().tag(sync=True)

        def _repr_mimebundle_(self, **kwargs: Any) -> Any:
            bundle = super()._repr_mimebundle_(**kwargs)
            # A page without scripts shows this; Colab would show it instead of the widget.
            if "google.colab" not in sys.modules:
                data = bundle[0] if isinstance(bundle, tuple) else bundle
                data["text/html"] = still(json.loads(self.values))
            return bundle

    return Calculator


def calculator(model: str = MODELS[0].name, **values: float) -> Any:
    """A form that says how many tokens and requests a GPU holds, live, also in a built page.

    Args:
        model: one of ``MODELS`` by name.
        values: other first values of the fields: ``itemsize``, ``memory_gib``, ``memory_ratio``,
            ``ranks``, ``page_size``, ``input_len``, ``output_len``, ``rows``.

    Returns:
        An anywidget; as a cell's last expression it is shown.

    Raises:
        ValueError: no such model or field, or numbers that ``sizes`` refuses.
        ImportError: anywidget is not there (extra ``book``).
    """
    chosen = next((m for m in MODELS if m.name == model), None)
    if chosen is None:
        known = ", ".join(m.name for m in MODELS)
        raise ValueError(f"model {model!r} is not one of: {known}")
    if unknown := sorted(set(values) - set(_FIRST)):
        raise ValueError(f"{unknown[0]!r} is no field; fields are: {', '.join(_FIRST)}")
    first = {"model": model, **_shape(chosen), **_FIRST, **values}
    _sizes_of(first)
    models = json.dumps([m._asdict() for m in MODELS])
    return calculator_class()(values=json.dumps(first), models=models)


def still(values: dict[str, Any]) -> str:
    """The same for readers who run no scripts: the results at these values, as HTML."""
    found = _sizes_of(values)
    rows = {
        "K and V of one token": f"{found.bytes_per_token:,} bytes",
        "pages N": f"{found.num_pages:,}",
        "tokens on one GPU": f"{found.tokens:,}",
        "requests at once": f"{found.admitted:,}",
    }
    cells = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in rows.items())
    caption = (
        f"{values['model']}, {values['memory_gib']} GiB, P = {values['page_size']},"
        f" {values['input_len']} prompt and {values['output_len']} output tokens"
    )
    return f"<table><caption>{caption}</caption>{cells}</table>"


def _shape(model: Model) -> dict[str, Any]:
    return {key: value for key, value in model._asdict().items() if key != "name"}


def _sizes_of(values: dict[str, Any]) -> Sizes:
    given = {key: value for key, value in values.items() if key != "model"}
    memory, billions = given.pop("memory_gib"), given.pop("billions")
    free = free_bytes(memory, billions, given["itemsize"], given["ranks"])
    return sizes(**given, free=free)
