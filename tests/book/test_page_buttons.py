"""The buttons under a page's title: where they lead, and that none leads nowhere."""

from __future__ import annotations

import importlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import nbformat
import pytest
from sphinx.errors import ExtensionError

from tests.book.browser import watched_page
from tests.book.throwaway import ROOT, Book, Text

PAGES = {"page": [Text("Some text.")]}
REPOSITORY = "https://github.com/someone/kv-book"


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    return importlib.import_module("page_buttons")


@pytest.mark.parametrize(
    "remote",
    [
        "https://github.com/someone/kv-book",
        "https://github.com/someone/kv-book.git",
        "https://someone:secret@github.com/someone/kv-book.git",
        "git@github.com:someone/kv-book.git",
        "ssh://git@github.com/someone/kv-book.git/",
        "ssh://git@github.com:22/someone/kv-book",
    ],
)
def test_a_public_remote_gives_an_address_without_secrets(
    extension: ModuleType, remote: str
) -> None:
    assert extension.public_address(remote) == "https://github.com/someone/kv-book"


@pytest.mark.parametrize(
    "remote",
    [
        "",
        "/srv/git/book.git",
        "git@git.intern:a/b",
        "https://github.com.evil.org/a/b",
        "gitlab.com",
    ],
)
def test_any_other_remote_gives_none(extension: ModuleType, remote: str) -> None:
    assert extension.public_address(remote) == ""


def test_colab_opens_what_is_on_github_alone(extension: ModuleType) -> None:
    address = extension.colab_address("https://github.com/a/b", "main", "book/page.ipynb")
    assert address == "https://colab.research.google.com/github/a/b/blob/main/book/page.ipynb"
    assert extension.colab_address("https://gitlab.com/a/b/c", "main", "book/page.ipynb") == ""
    assert extension.colab_address("", "main", "book/page.ipynb") == ""


def run_git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def test_git_is_asked_about_the_books_own_repository(extension: ModuleType, tmp_path: Path) -> None:
    assert extension.repository_of(tmp_path) == ""
    run_git(tmp_path, "init", "-q")
    assert extension.repository_of(tmp_path) == ""
    run_git(tmp_path, "remote", "add", "origin", "git@gitlab.com:group/part/book.git")
    assert extension.repository_of(tmp_path) == "https://gitlab.com/group/part/book"
    inner = tmp_path / "copied into another repository"
    inner.mkdir()
    assert extension.repository_of(inner) == ""


def built(folder: Path, repository: str = "", in_cell: str = "") -> Book:
    book = Book(folder, PAGES)
    if in_cell:
        path = folder / "book" / "page.ipynb"
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cell = nbformat.v4.new_code_cell(f'    address = "{in_cell}"  # …', id="colab")
        cell.source = f"if False:\n{cell.source}"
        notebook["cells"].insert(1, cell)
        del notebook["metadata"]["mystnb"]  # now there is something to run
        path.write_text(json.dumps(notebook), encoding="utf-8")
    config = folder / "_config.yml"
    text = config.read_text(encoding="utf-8")
    if repository:
        config.write_text(text.replace("book_repository: auto", f"book_repository: {repository}"))
    result = book.build("-W", "-n", "--keep-going")
    assert result.returncode == 0, result.stdout
    return book


@pytest.mark.browser
def test_without_an_address_there_is_the_download_alone(
    tmp_path: Path, chromium: Any, serve: Callable[[Path], str]
) -> None:
    book = built(tmp_path / "book")
    assert "page-buttons" not in book.read("index")  # no notebook
    address = serve(book.html.parent)
    with watched_page(chromium, offline=False) as page:
        page.goto(f"{address}/book/page.html")
        row = page.locator(".page-buttons a")
        assert row.all_inner_texts() == ["Download notebook"]
        assert row.bounding_box()["height"] >= 24
        with page.expect_download() as download:
            row.click()
        assert download.value.suggested_filename == "page.ipynb"
        assert (
            Path(download.value.path()).read_bytes()
            == (book.folder / "book" / "page.ipynb").read_bytes()
        )
        assert not page.faults, page.faults


def test_with_an_address_there_is_colab(tmp_path: Path) -> None:
    book = built(tmp_path / "book", REPOSITORY, in_cell=REPOSITORY)
    address = "https://colab.research.google.com/github/someone/kv-book/blob/main/book/page.ipynb"
    assert f'<a href="{address}">Open in Colab</a>' in book.read("page")


def test_a_page_that_could_not_install_the_package_has_no_button_for_it(
    extension: ModuleType,
) -> None:
    config = SimpleNamespace(book_repository=REPOSITORY, book_branch="main")
    for installs in (False, True):
        row = extension.buttons(config, "book/page", installs)
        assert ("Open in Colab" in row) is installs and "Download notebook" in row
    for source, address in (('address = ""', ""), (f'    address = "{REPOSITORY}"', REPOSITORY)):
        notebook = {"cells": [{"id": "title"}, {"id": "colab", "source": ["if 1:\n", source]}]}
        assert extension.address_in(notebook) == address


def test_an_address_that_is_none_fails_the_build(extension: ModuleType, tmp_path: Path) -> None:
    app = SimpleNamespace(srcdir=tmp_path)
    config = SimpleNamespace(book_repository="example.org/x", book_branch="main")
    with pytest.raises(ExtensionError, match=r"'example\.org/x' is not allowed"):
        extension.settle(app, config)
