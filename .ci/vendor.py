"""Renew the browser files that the book carries: `make vendor`. Needs npm and a network.

The files land in book/_static/vendor/ with their licence texts in LICENSES/ and a manifest.json
that says of each package what it is, whence it came, its licence, what was changed, and the
SHA-256 of every file. tests/book/test_vendor.py holds the folder to the manifest.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[1] / "book" / "_static" / "vendor"

NPM = {"requirejs": "2.3.7", "@jupyter-widgets/html-manager": "1.0.14", "mathjax": "3.2.2"}
# Bundled into html-manager by webpack, so only their notices are wanted.
NPM_NOTICES = {"css-loader": "6", "style-loader": "3"}

# The manager builds two JSON validators whose strict mode warns on the console about the widgets'
# own schema. Nothing else is changed.
AJV_STRICT = {
    "ut=new(dt());": "ut=new(dt())({strict:false});",
    "k=new(w()),": "k=new(w())({strict:false}),",
}

MIT = """MIT License

Copyright {holder}

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""


def install_npm_packages(folder: Path) -> Path:
    """Install the pinned packages below `folder` and return its node_modules. Runs no script."""
    wanted = [f"{name}@{version}" for name, version in (NPM | NPM_NOTICES).items()]
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
    print(f"npm: {', '.join(wanted)}", flush=True)
    subprocess.run(["npm", "install", "--prefix", str(folder), *options, *wanted], check=True)
    return folder / "node_modules"


def licence_file(package: Path) -> Path | None:
    """The licence text that a package ships, if it ships one."""
    found = [p for p in package.iterdir() if p.name.lower().startswith(("licen", "copying"))]
    return min(found, key=lambda p: p.name) if found else None


def bundled_packages(source_map: Path) -> list[str]:
    """Names of the npm packages whose code webpack put into html-manager."""
    names = set()
    for source in json.loads(source_map.read_text(encoding="utf-8"))["sources"]:
        _, found, tail = source.rpartition("node_modules/")
        if found:
            parts = tail.split("/")
            names.add("/".join(parts[: 2 if parts[0].startswith("@") else 1]))
    return sorted(names)


def bundled_notices(modules: Path) -> str:
    """One text with the licence of each package inside html-manager."""
    manager = modules / "@jupyter-widgets" / "html-manager"
    jupyter = (manager / "LICENSE").read_text(encoding="utf-8").strip()
    texts = [
        "html-manager carries the code of the packages below. Each name is followed by the\n"
        "licence that the package declares, and its text.\n"
    ]
    for name in bundled_packages(manager / "dist" / "embed.js.map"):
        package = modules / name
        about = json.loads((package / "package.json").read_text(encoding="utf-8"))
        path = licence_file(package)
        if path is not None:
            text = path.read_text(encoding="utf-8").strip()
        elif name.startswith(("@jupyter", "@lumino")):
            text = jupyter  # a Jupyter package without a file of its own: the project's text
        else:
            raise SystemExit(f"vendor: {name} ships no licence text")
        texts.append(f"{'=' * 78}\n{name} ({about['license']})\n{'=' * 78}\n\n{text}\n")
    return "\n".join(texts)


class Folder:
    """The folder under construction, with the manifest that describes it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.packages: list[dict[str, object]] = []
        (root / "LICENSES").mkdir(parents=True)

    def add(
        self,
        name: str,
        version: str,
        *,
        source: str,
        licence: str,
        text: str,
        changes: str = "none",
        files: dict[str, Path | bytes] | None = None,
        notices: str | None = None,
    ) -> None:
        """Copy `files` (target: source) and note the package with its licence text."""
        stem = name.split("/")[-1]
        texts = {f"LICENSES/{stem}.txt": text}
        if notices is not None:
            texts[f"LICENSES/{stem}-bundled.txt"] = notices
        for target, content in texts.items():
            (self.root / target).write_text(content.rstrip() + "\n", encoding="utf-8")
        hashes = {}
        for target, content in sorted((files or {}).items()):
            path = self.root / target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.read_bytes())
            hashes[target] = hashlib.sha256(path.read_bytes()).hexdigest()
        self.packages.append(
            {
                "name": name,
                "version": version,
                "source": source,
                "licence": licence,
                "licence_files": list(texts),
                "changes": changes,
                "files": hashes,
            }
        )

    def write_manifest(self) -> None:
        licences = {
            f"LICENSES/{p.name}": hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted((self.root / "LICENSES").iterdir())
        }
        manifest = {"packages": self.packages, "licences": licences}
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        (self.root / "manifest.json").write_text(text, encoding="utf-8")


def add_html_manager(folder: Folder, modules: Path) -> None:
    package = modules / "@jupyter-widgets" / "html-manager"
    dist = package / "dist"
    script = (dist / "embed-amd.js").read_text(encoding="utf-8")
    for old, new in AJV_STRICT.items():
        if script.count(old) != 1:
            raise SystemExit(f"vendor: {old!r} stands {script.count(old)} times in embed-amd.js")
        script = script.replace(old, new)
    target = "npm/@jupyter-widgets/html-manager/dist"
    fonts: dict[str, Path | bytes] = {f"{target}/{p.name}": p for p in dist.glob("*.woff2")}
    folder.add(
        "@jupyter-widgets/html-manager",
        NPM["@jupyter-widgets/html-manager"],
        source="npm package @jupyter-widgets/html-manager, dist/",
        licence="BSD-3-Clause",
        text=(package / "LICENSE").read_text(encoding="utf-8"),
        notices=bundled_notices(modules),
        changes="embed-amd.js: Ajv's strict mode is switched off in two places, which silences two"
        " console warnings; of the fonts only the woff2 files are kept",
        files={f"{target}/embed-amd.js": script.encode(), **fonts},
    )


def add_mathjax(folder: Folder, modules: Path) -> None:
    package = modules / "mathjax"
    kept = [package / "es5" / "tex-chtml.js"]
    kept += (package / "es5" / "output" / "chtml" / "fonts" / "woff-v2").iterdir()
    kept += (package / "es5" / "input" / "tex" / "extensions").rglob("*.js")
    folder.add(
        "mathjax",
        NPM["mathjax"],
        source="npm package mathjax, es5/",
        licence="Apache-2.0",
        text=(package / "LICENSE").read_text(encoding="utf-8"),
        changes="none; only TeX input, HTML output, its fonts and TeX extensions are kept",
        files={f"mathjax/{p.relative_to(package / 'es5').as_posix()}": p for p in kept},
    )


def add_python_packages(folder: Folder) -> None:
    """anywidget's script, and the theme, whose files Sphinx copies into each book."""
    widget = metadata.distribution("anywidget")
    script = Path(str(widget.locate_file("anywidget/nbextension/index.js")))
    folder.add(
        "anywidget",
        widget.version,
        source="Python package anywidget, nbextension/index.js",
        licence="MIT",
        text=widget.read_text("licenses/LICENSE") or "",
        files={"npm/anywidget/index.js": script},
    )
    for name in ("sphinx-book-theme", "pydata-sphinx-theme"):
        theme = metadata.distribution(name)
        folder.add(
            name,
            theme.version,
            source=f"Python package {name}, copied into the built book by Sphinx",
            licence="BSD-3-Clause",
            text=theme.read_text("licenses/LICENSE") or "",
        )


def add_theme_parts(folder: Folder, modules: Path) -> None:
    """What the theme carries in its turn."""
    awesome = modules / "@fortawesome" / "fontawesome-free" / "LICENSE.txt"
    folder.add(
        "font-awesome-free",
        "6.5.2",
        source="inside pydata-sphinx-theme (scripts/fontawesome.js); an older one in html-manager",
        licence="CC-BY-4.0 (icons), OFL-1.1 (fonts), MIT (code)",
        text=awesome.read_text(encoding="utf-8"),
    )
    folder.add(
        "bootstrap",
        "5.3.3",
        source="inside pydata-sphinx-theme (scripts/bootstrap.js)",
        licence="MIT",
        text=MIT.format(holder="(c) 2011-2024 The Bootstrap Authors"),
    )


def build(root: Path, modules: Path) -> None:
    """Fill the empty folder `root`."""
    folder = Folder(root)
    folder.add(
        "requirejs",
        NPM["requirejs"],
        source="npm package requirejs, require.js",
        licence="MIT",
        text=MIT.format(holder="jQuery Foundation and other contributors"),
        files={"requirejs/require.js": modules / "requirejs" / "require.js"},
    )
    add_html_manager(folder, modules)
    add_mathjax(folder, modules)
    add_python_packages(folder)
    add_theme_parts(folder, modules)
    folder.write_manifest()


def hashes(root: Path) -> dict[str, str]:
    paths = [p for p in root.rglob("*") if p.is_file()] if root.is_dir() else []
    return {
        p.relative_to(root).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths
    }


def main() -> int:
    if shutil.which("npm") is None:
        print("vendor: npm is not on the PATH; `make vendor` needs Node.js", file=sys.stderr)
        return 1
    before = hashes(VENDOR)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            modules = install_npm_packages(Path(scratch))
        except subprocess.CalledProcessError as error:
            print(f"vendor: npm could not install the packages ({error})", file=sys.stderr)
            return 1
        fresh = Path(scratch) / "vendor"
        build(fresh, modules)
        after = hashes(fresh)
        shutil.rmtree(VENDOR, ignore_errors=True)
        shutil.copytree(fresh, VENDOR)
    changed = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    print(f"{VENDOR}: {len(after)} files, {len(changed)} changed")
    for name in changed:
        print(f"  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
