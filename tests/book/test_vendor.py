"""The files of others in the book: each listed, each as its manifest says."""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
VENDOR = ROOT / "book" / "_static" / "vendor"


def faults_of(folder: Path) -> list[str]:
    """What differs between the folder and its manifest."""
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    listed = dict(manifest["licences"])
    for package in manifest["packages"]:
        listed |= package["files"]
    found = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path != folder / "manifest.json"
    }
    unlisted = [f"{name} is not listed" for name in found.keys() - listed.keys()]
    lost = [f"{name} is missing" for name in listed.keys() - found.keys()]
    changed = [f"{n} has another hash" for n in found if listed.get(n, found[n]) != found[n]]
    return sorted(unlisted + lost + changed)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(VENDOR, tmp_path / "vendor"))


def test_every_vendored_file_is_listed_with_its_hash() -> None:
    assert faults_of(VENDOR) == []


def test_planted_changed_and_lost_files_are_found(copy: Path) -> None:
    (copy / "planted.js").write_text("alert(1)", encoding="utf-8")
    (copy / "LICENSES" / "mathjax.txt").unlink()
    with (copy / "requirejs" / "require.js").open("a", encoding="utf-8") as script:
        script.write("// edited\n")
    assert faults_of(copy) == [
        "LICENSES/mathjax.txt is missing",
        "planted.js is not listed",
        "requirejs/require.js has another hash",
    ]


def test_each_package_says_what_it_is_and_has_a_licence_text() -> None:
    packages = json.loads((VENDOR / "manifest.json").read_text(encoding="utf-8"))["packages"]
    names = {package["name"] for package in packages}
    assert {"requirejs", "@jupyter-widgets/html-manager", "anywidget", "mathjax"} <= names
    assert {"sphinx-book-theme", "pydata-sphinx-theme", "font-awesome-free"} <= names
    for package in packages:
        for key in ("name", "version", "source", "licence", "changes"):
            assert package[key], f"{package['name']}: no {key}"
        assert package["licence_files"]
        for path in package["licence_files"]:
            assert len((VENDOR / path).read_text(encoding="utf-8")) > 500


def test_others_scripts_and_fonts_lie_in_the_vendor_folder_alone() -> None:
    """Outside it only our own files: scripts that a reader can read, and text."""
    tracked = (ROOT / "book").rglob("*")
    for path in tracked:
        outside = VENDOR not in path.parents and "_build" not in path.parts
        if outside and path.suffix in {".js", ".woff", ".woff2", ".ttf", ".eot"}:
            assert path.suffix == ".js", path
            assert path.stat().st_size < 20_000, path


def test_anywidget_front_end_is_that_of_the_installed_package() -> None:
    packages = json.loads((VENDOR / "manifest.json").read_text(encoding="utf-8"))["packages"]
    vendored = {package["name"]: package["version"] for package in packages}
    assert vendored["anywidget"] == metadata.version("anywidget")
