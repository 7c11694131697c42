"""Under the title of each page that is a notebook: "Open in Colab", "Download notebook".

`book_repository` in _config.yml is the address of the public repository that the book lies in, or
`auto`: git's remote `origin` when that is on github.com or gitlab.com, else none. Colab opens
notebooks from GitHub, so without such an address there is no button for it; nor on a page whose
cell for Colab has no address to install the package from (colab_cell.py writes it there).
"""

from __future__ import annotations

import json
import re
import subprocess
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

HOSTS = ("github.com", "gitlab.com")
# https://[user:secret@]HOST/PATH, ssh://git@HOST[:port]/PATH or git@HOST:PATH, with or without .git
REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^@/]*@)?|[\w.-]+@)"
    rf"(?P<host>{'|'.join(map(re.escape, HOSTS))})(?::\d+(?=/))?[:/]"
    r"(?P<path>[\w.-]+(?:/[\w.-]+)+)/?"
)
CELL_ID = "colab"
ADDRESS = re.compile(r'^ *address = "([^"]+)"', re.MULTILINE)
COLAB = "https://colab.research.google.com/github/{path}/blob/{branch}/{file}"


def public_address(remote: str) -> str:
    """`https://HOST/PATH` of a remote on a public host, without a name or secret; else ""."""
    match = REMOTE.fullmatch(remote.strip())
    return f"https://{match['host']}/{match['path'].removesuffix('.git')}" if match else ""


def git(folder: Path, *arguments: str) -> str:
    """What git says, or "" where there is no git, no repository or no such thing in it."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def repository_of(folder: Path) -> str:
    """The public address of the repository whose root is `folder`, else ""."""
    root = git(folder, "rev-parse", "--show-toplevel")
    if not root or Path(root).resolve() != folder.resolve():
        return ""
    return public_address(git(folder, "remote", "get-url", "origin"))


def settle(app: Sphinx, config: Config) -> None:
    """Sphinx event: the settings are read."""
    given = config.book_repository
    address = repository_of(Path(app.srcdir)) if given == "auto" else public_address(given)
    if given not in ("", "auto") and not address:
        raise ExtensionError(
            f"book_repository {given!r} is not allowed: auto, or https://HOST/OWNER/NAME with "
            f"HOST one of {', '.join(HOSTS)}"
        )
    config.book_repository = address
    root = Path(app.srcdir, f"{config.root_doc}.ipynb")
    if address and root.is_file() and not address_in(json.loads(root.read_text(encoding="utf-8"))):
        print(f"The repository is {address}; python book/_ext/colab_cell.py puts it into the pages")


def colab_address(repository: str, branch: str, file: str) -> str:
    """Where Colab opens the file, or "" where it can't."""
    host, _, path = repository.removeprefix("https://").partition("/")
    if host != "github.com":
        return ""
    return COLAB.format(path=path, branch=quote(branch, safe=""), file=quote(file))


def address_in(notebook: dict[str, Any]) -> str:
    """Where a notebook's cell for Colab installs the package from, "" where it has none."""
    for cell in notebook["cells"]:
        if cell.get("id") == CELL_ID and (match := ADDRESS.search("".join(cell["source"]))):
            return match[1]
    return ""


def buttons(config: Config, docname: str, installs: bool) -> str:
    """The row of buttons, as HTML. `installs`: the page's own cell can fetch the package."""
    file = f"{docname}.ipynb"
    source = "../" * docname.count("/") + f"_sources/{file}"
    name = file.rpartition("/")[2]
    links = [f'<a href="{escape(source)}" download="{escape(name)}">Download notebook</a>']
    address = colab_address(config.book_repository, config.book_branch, file)
    if address and installs:
        links.insert(0, f'<a href="{escape(address)}">Open in Colab</a>')
    return f'<p class="page-buttons">{" ".join(links)}</p>'


def add_buttons(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Sphinx event: a page is about to be written. On the first page they stand at the end."""
    if app.builder.format != "html" or not app.env.doc2path(docname).endswith(".ipynb"):
        return
    notebook = json.loads(Path(app.env.doc2path(docname)).read_text(encoding="utf-8"))
    row = nodes.raw("", buttons(app.config, docname, bool(address_in(notebook))), format="html")
    section = next(doctree.findall(nodes.section), None)
    if section is not None:
        section.insert(len(section) if docname == app.config.root_doc else 1, row)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("book_repository", "auto", "html", [str])
    app.add_config_value("book_branch", "main", "html", [str])
    app.connect("config-inited", settle)
    app.connect("doctree-resolved", add_buttons)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
