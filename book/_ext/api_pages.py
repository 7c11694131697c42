"""`api-module`: a module in the API reference, made from its docstrings.

Inside `eval-rst`, because docstrings are reStructuredText::

    .. api-module:: minisgl_lite.attention
       :also: minisgl_lite.attention.fa

It shows the module's text, a table of its names, and each name with its members. A package shows
what its ``__all__`` names, another module what it defines; ``also`` adds modules or single names.
Members whose names begin with ``_`` are shown where mini-sglang has them, too.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

MIRRORED = Path(__file__).parents[1] / "_data" / "mini_sglang.json"
FIRST_SENTENCE = re.compile(r"(.*?\.)(?:\s|$)")
# Napoleon reads "WORDS: text" on a property's first line as its type. Here it is a sentence.
COLON, KEPT = ":", "\ue000"


class Entry(NamedTuple):
    """A name as it is documented: in ``module``, though it may be defined further inside."""

    module: str
    name: str
    obj: Any

    @property
    def address(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def kind(self) -> str:
        if inspect.isclass(self.obj):
            return "exception" if issubclass(self.obj, BaseException) else "class"
        return "function" if inspect.isroutine(self.obj) else "data"


@cache
def mirrored() -> dict[str, dict[str, list[str]]]:
    modules: dict[str, dict[str, list[str]]] = json.loads(MIRRORED.read_text("utf-8"))["modules"]
    return modules


@cache
def comments(module_name: str) -> dict[str, str]:
    """The strings that stand below a module's constants."""
    analyzer = ModuleAnalyzer.for_module(module_name)
    analyzer.analyze()
    return {n: "\n".join(text) for (owner, n), text in analyzer.attr_docs.items() if not owner}


def comment_of(module_name: str, name: str) -> str:
    """The string below a constant, which may stand further inside than the constant is shown."""
    value = getattr(importlib.import_module(module_name), name)
    for inside, module in sorted(sys.modules.items()):
        within = inside == module_name or inside.startswith(f"{module_name}.")
        if within and getattr(module, name, None) is value and name in comments(inside):
            return comments(inside)[name]
    return ""


def public_names(module: ModuleType) -> Iterator[str]:
    """What ``__all__`` names, else what is defined here, constants only if they have a comment."""
    if hasattr(module, "__all__"):
        yield from module.__all__
        return
    commented = comments(module.__name__)
    for name, obj in vars(module).items():
        defined = getattr(obj, "__module__", "") == module.__name__ or name in commented
        if defined and not name.startswith("_") and not isinstance(obj, TypeVar):
            yield name


def load(address: str) -> tuple[ModuleType, list[str]]:
    """A module and its public names; or, of ``MODULE.NAME``, the module and that name."""
    try:
        module = importlib.import_module(address)
    except ModuleNotFoundError:
        owner, _, name = address.rpartition(".")
        return importlib.import_module(owner), [name]
    return module, list(public_names(module))


def entries(address: str) -> Iterator[Entry]:
    """The names at home in a module; what it only passes on is documented where it comes from."""
    module, names = load(address)
    module_name = module.__name__
    for name in names:
        obj = getattr(module, name)
        home = getattr(obj, "__module__", module_name)
        typed = not (inspect.isclass(obj) or inspect.isroutine(obj))
        if typed or home == module_name or home.startswith(f"{module_name}."):
            yield Entry(module_name, name, obj)


def text_of(entry: Entry) -> str:
    """The docstring, not the one that ``dataclass`` and ``NamedTuple`` make up."""
    if entry.kind == "data":
        return comment_of(entry.module, entry.name)
    inherited = inspect.isclass(entry.obj) and not vars(entry.obj).get("__doc__")
    text = "" if inherited else inspect.getdoc(entry.obj) or ""
    return "" if text.startswith(f"{entry.name}(") else text


def first_sentence(text: str) -> str:
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    found = FIRST_SENTENCE.match(paragraph)
    return found.group(1) if found else paragraph.rstrip(":")


def private_members(cls: type) -> list[str]:
    """Underscored methods of the class that mini-sglang's class of that name has as well."""
    inside = cls.__module__.removeprefix("minisgl_lite.")
    names = mirrored().get(inside, {}).get(cls.__name__, [])
    return [n for n in names if re.match("_[a-z]", n) and inspect.isroutine(vars(cls).get(n))]


def block(entry: Entry) -> list[str]:
    """The autodoc directive of one name."""
    lines = [f".. auto{entry.kind}:: {entry.address}"]
    if entry.kind == "data":
        lines += ["   :no-value:"] * (not isinstance(entry.obj, int | str))
    elif entry.kind != "function":
        lines += ["   :members:", "   :undoc-members:", "   :member-order: bysource"]
        if entry.obj.__bases__ != (object,):
            lines.append("   :show-inheritance:")
        if private := private_members(entry.obj):
            lines.append(f"   :private-members: {', '.join(private)}")
    return [*lines, ""]


def table(found: Iterable[Entry]) -> list[str]:
    lines = [".. list-table::", "   :class: api-names", "   :widths: 40 60", ""]
    for entry in found:
        lines.append(f"   * - :py:obj:`{entry.name} <{entry.address}>`")
        lines.append(f"     - {first_sentence(text_of(entry))}")
    return [*lines, ""]


class ApiModule(SphinxDirective):
    """A module's text, the table of its names, and the names."""

    required_arguments = 1
    option_spec = {"also": directives.unchanged}  # noqa: RUF012 - docutils wants a dict here

    def run(self) -> list[nodes.Node]:
        modules = [self.arguments[0], *self.options.get("also", "").split()]
        found: dict[int | str, Entry] = {}
        for module in modules:
            for entry in entries(module):
                # A class or function has one home; equal constants are different names.
                key = entry.address if entry.kind == "data" else id(entry.obj)
                found.setdefault(key, entry)
        lines = [f".. automodule:: {modules[0]}", ""]
        lines += table(found.values())
        for entry in found.values():
            lines += block(entry)
        node = nodes.Element()
        source = self.get_source_info()[0]
        nested_parse_with_titles(self.state, StringList(lines, source), node)
        return node.children


def is_ours(path: str, name: str) -> bool:
    """Whether the module has such a name; one that is misspelt stays a warning."""
    try:
        return hasattr(importlib.import_module(path), name)
    except ModuleNotFoundError:
        return False


def before_napoleon(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Autodoc event. Our own words about constants and fields, not Python's; sentences kept."""
    if what == "data":
        module, _, constant = name.rpartition(".")
        lines[:] = comment_of(module, constant).splitlines()
    if lines and re.fullmatch(r"Alias for field number \d+", lines[0]):
        lines.clear()
    if lines and what in {"property", "attribute", "data"}:
        lines[0] = lines[0].replace(COLON, KEPT)


def after_napoleon(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Autodoc event."""
    lines[:] = [line.replace(KEPT, COLON) for line in lines]


def resolve_short_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Node | None:
    """Sphinx event: a type in a signature is not in the reference under this name.

    A name imported for type checkers alone stands there as it is written in the source: take the
    one object of ours that ends so. Without a link, but shown: names of others, since what they
    link to would have to be asked of the network; and those of ours that have no place in the
    reference, such as type variables and private base classes.
    """
    if node.get("refdomain") != "py":
        return None
    path, _, name = node["reftarget"].rpartition(".")
    if path:
        return content if not path.startswith("minisgl_lite") or is_ours(path, name) else None
    domain = cast(PythonDomain, env.get_domain("py"))
    found = [
        (address, entry)
        for address, entry in domain.objects.items()
        if address.rpartition(".")[2] == name and not entry.aliased
    ]
    if len(found) != 1:
        return None
    docname = node.get("refdoc", env.docname)
    return domain.resolve_xref(env, docname, app.builder, "obj", found[0][0], node, content)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("api-module", ApiModule)
    app.connect("autodoc-process-docstring", before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", after_napoleon, priority=600)
    app.connect("missing-reference", resolve_short_name)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
