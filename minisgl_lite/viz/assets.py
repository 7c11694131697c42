"""The view's sources, put together for a page: one ES module, one style sheet, the words.

The modules in ``static/`` are plain ES modules that a browser or node loads as they are. A widget
carries one text, so they are joined here: local imports and the word ``export`` go, indents and
comments go (one behind code only if it holds no quotes), order follows the imports. There is no
bundler; what a module may write is little enough to be checked line by line.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import zlib
from pathlib import Path

from ..text import CATALOGUE

STATIC = Path(__file__).parent / "static"
ENTRY = "widget.js"
# Said by Python only, in errors and findings: a page does not carry them.
PYTHON_WORDS = ("driver.", "figure.", "sanitizer.")

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+)";\n', re.MULTILINE)
_TOP_LEVEL = re.compile(
    r"^(?:export )?(?:async )?(?:function\*? |class |const |let )([A-Za-z_$][\w$]*)", re.MULTILINE
)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)
_COMMENT = re.compile(
    r"^[ \t]*(?://[^\n]*|/\*\*(?:(?!\*/).)*\*/[ \t]*)\n", re.MULTILINE | re.DOTALL
)
# Behind code; no quotes, so that it can't be the end of a string.
_REMARK = re.compile(r"[ \t]+// [^\n\"'`]*$", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)

_CSS_COMMENT = re.compile(r"^/\*(?:(?!\*/).)*\*/\n", re.MULTILINE | re.DOTALL)
# Room that a style sheet does not need: around braces, semicolons and commas, behind a colon.
_CSS_ROOM = re.compile(r"\s*([{};,])\s*|(:) ")

# What a page runs: it unpacks the module and loads it once, however many views the page holds.
_PACKED = """\
const load = async () => {{
  const bytes = Uint8Array.from(atob("{data}"), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const source = await new Response(stream).text();
  const url = URL.createObjectURL(new Blob([source], {{ type: "text/javascript" }}));
  const view = (await import(url)).default;
  URL.revokeObjectURL(url);
  return view;
}};
const loaded = (globalThis.minisglLiteViews ??= {{}});
const view = () => (loaded["{digest}"] ??= load());
export default {{ render: async (context) => (await view()).render(context) }};
"""


def _order(name: str, seen: dict[str, str], path: tuple[str, ...] = ()) -> None:
    """Put ``name`` into ``seen`` behind everything it imports."""
    if name in seen:
        return
    if name in path:
        raise ValueError(f"static/{name} imports itself by way of {' → '.join(path)}")
    source = (STATIC / name).read_text(encoding="utf-8")
    for names, wanted in _IMPORT.findall(source):
        if " as " in names:
            raise ValueError(
                f"static/{name}: import from {wanted} without 'as': names stay as they are"
            )
        _order(wanted, seen, (*path, name))
    seen[name] = source


def join_modules(sources: dict[str, str]) -> str:
    """Join modules, given in order, into the text of one.

    Raises ValueError when two modules have a top-level name in common, when an import is written
    in another way than ``import { a, b } from "./x.js";``, or when a template goes over lines: its
    indents are text.
    """
    owner: dict[str, str] = {}
    parts = []
    for name, source in sources.items():
        body = _IMPORT.sub("", source)
        if re.search(r"^import\b", body, re.MULTILINE):
            raise ValueError(f'static/{name}: write imports as import {{ a, b }} from "./x.js";')
        body = _REMARK.sub("", _COMMENT.sub("", body))
        if any(line.count("`") % 2 for line in body.splitlines()):
            raise ValueError(f"static/{name}: a template stays on one line")
        for top in _TOP_LEVEL.findall(body):
            if owner.setdefault(top, name) != name:
                raise ValueError(f"static/{name} and static/{owner[top]} both define {top}")
        parts.append(_INDENT.sub("", _EXPORT.sub("", body)).strip("\n"))
    return "\n".join(parts) + "\n"


@functools.cache
def module_source() -> str:
    """The view as one readable ES module, words included; its default export has ``render``."""
    sources: dict[str, str] = {}
    _order(ENTRY, sources)
    entry = sources.pop(ENTRY)
    catalogue = {k: v for k, v in CATALOGUE.items() if not k.startswith(PYTHON_WORDS)}
    words = json.dumps(catalogue, ensure_ascii=False, separators=(",", ":"))
    return join_modules({**sources, "catalogue": f"useWords({words});", ENTRY: entry})


@functools.cache
def esm() -> str:
    """The same, packed to a third: a page repeats it for each widget."""
    source = module_source().encode()
    data = base64.b64encode(zlib.compress(source, 9)).decode()
    return _PACKED.format(data=data, digest=hashlib.sha256(source).hexdigest()[:16])


@functools.cache
def css() -> str:
    """The style sheets, joined; comments and room that they don't need go."""
    sheets = ("view.css", "panels.css", "page.css", "answers.css")
    text = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in sheets)
    return _CSS_ROOM.sub(r"\1\2", _CSS_COMMENT.sub("", text)).replace(";}", "}")
