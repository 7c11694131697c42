"""What students hand in: every entry is read, put in order or refused with a reason."""

from __future__ import annotations

import copy
import json
import os
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

from minisgl_lite.grade.intake import Unreadable, parse, put_in_order, read_class, shown_in

ROOT = Path(__file__).resolve().parents[2]
NAME = "pages-and-slots"
RELEASED = nbformat.read(ROOT / "exercises" / f"{NAME}.ipynb", as_version=4)


def handed_in(change: Any = None) -> bytes:
    notebook = copy.deepcopy(RELEASED)
    if change is not None:
        change(notebook, {cell.id: cell for cell in notebook.cells})
    return json.dumps(notebook).encode()


def ordered(content: bytes) -> tuple[Any, list[str]]:
    data, flags = put_in_order(content, RELEASED)
    return nbformat.reads(data.decode(), as_version=4), flags


def sources(notebook: Any) -> dict[str, str]:
    return {cell.id: cell.source for cell in notebook.cells}


def test_an_untouched_notebook_comes_through_as_it_was() -> None:
    notebook, flags = ordered(handed_in())
    assert flags == []
    assert sources(notebook) == sources(RELEASED)
    assert [c.metadata for c in notebook.cells] == [c.metadata for c in RELEASED.cells]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + handed_in(),
        handed_in().replace(b"\\n", b"\\r\\n"),
        json.dumps(json.loads(handed_in()) | {"nbformat_minor": 2}).encode(),
    ],
    ids=["bom", "crlf", "older-minor"],
)
def test_encodings_and_older_formats_are_read(content: bytes) -> None:
    notebook, flags = ordered(content)
    assert (sources(notebook), flags) == (sources(RELEASED), [])


def test_stripped_metadata_come_back_by_the_cells_ids() -> None:
    def strip(notebook: Any, cells: Any) -> None:
        for cell in notebook.cells:
            cell.metadata = {}

    notebook, flags = ordered(handed_in(strip))
    assert flags == []
    assert [c.metadata for c in notebook.cells] == [c.metadata for c in RELEASED.cells]


def test_ids_that_a_host_has_renewed_come_back_by_the_metadata() -> None:
    def renew(notebook: Any, cells: Any) -> None:
        for number, cell in enumerate(notebook.cells):
            cell.id = f"new{number}"

    notebook, flags = ordered(handed_in(renew))
    assert flags == []
    assert "page-slots-check" in sources(notebook)


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        (
            lambda n, c: c["page-slots-check"].metadata.nbgrader.update(points=400),
            "cell page-slots-check: points were changed to 400",
        ),
        (
            lambda n, c: c["page-slots-check"].update(source="print('done: page-slots')"),
            "cell page-slots-check: the locked text was changed",
        ),
        (
            lambda n, c: n.cells.remove(c["page-slots-check"]),
            "cell page-slots-check is missing",
        ),
        (
            lambda n, c: n.cells.append(copy.deepcopy(c["page-slots-answer"])),
            "cell page-slots-answer is there twice; the first one counts",
        ),
        (
            lambda n, c: n.metadata.kernelspec.update(language="julia"),
            "written for another kernel: julia",
        ),
    ],
    ids=["points", "locked", "missing", "twice", "kernel"],
)
def test_what_was_tampered_with_is_flagged(change: Any, flag: str) -> None:
    notebook, flags = ordered(handed_in(change))
    assert flags == [flag]
    points = [c.metadata.get("nbgrader", {}).get("points") for c in notebook.cells]
    assert 400 not in points
    assert notebook.metadata.kernelspec.language == "python"


def test_what_an_answer_has_no_use_for_is_flagged() -> None:
    def answer(notebook: Any, cells: Any) -> None:
        cells["page-slots-answer"].source += "\nimport atexit\natexit.register(print)"

    assert ordered(handed_in(answer))[1] == ["cell page-slots-answer runs something at exit"]


@pytest.mark.parametrize(
    ("count", "outputs", "shown"),
    [
        (3, [{"name": "stdout", "output_type": "stream", "text": ["done: page-slots\n"]}], True),
        (3, [{"name": "stdout", "output_type": "stream", "text": "done: page-slots\n"}], True),
        (0, [{"name": "stdout", "output_type": "stream", "text": "done: page-slots\n"}], False),
        (3, [{"text": "not done yet: page-slots\n"}, {"text": [7, "done: a b"]}, 5], False),
        (3, {"text": "done: page-slots"}, False),
    ],
    ids=["run", "run-as-text", "as-handed-out", "something-else", "no-list"],
)
def test_what_stood_below_a_check_that_ran_is_known(count: int, outputs: Any, shown: bool) -> None:
    def change(notebook: Any, cells: Any) -> None:
        cells["page-slots-check"].update(execution_count=count, outputs=outputs)

    notebook = parse(handed_in(change))
    assert shown_in(notebook) == ({"page-slots"} if shown else set())
    assert not any(cell.get("outputs") for cell in notebook.cells)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"{", "it is no notebook"),
        (b"[" * 200_000, "nested too deeply"),
        (b"\xff\xfe\x00", "it is no notebook"),
        (b'{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "it"),
        (b'{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "it has no cells"),
        (b'{"cells": [3], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "it"),
        (json.dumps({"nbformat": 99}).encode(), "it is no notebook"),
        (
            json.dumps(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])).encode(),
            "none of the assignment's cells",
        ),
    ],
)
def test_what_is_no_notebook_is_refused_with_a_reason(content: bytes, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        put_in_order(content, RELEASED)


def cell(source: str, cell_id: str = "own") -> dict[str, Any]:
    return {
        "cell_type": "code", "id": cell_id, "source": source,
        "metadata": {}, "outputs": [], "execution_count": None,
    }  # fmt: skip


def with_data(change: Any) -> bytes:
    data = json.loads(json.dumps(RELEASED))
    change(data)
    return json.dumps(data).encode()


MASSES = {
    "cells": (lambda d: d["cells"].extend([cell("1")] * 100_000), "more than 1000 cells"),
    "text": (lambda d: d["cells"].append(cell("import " * 400_000)), "more than 2 MB of text"),
    "old-cells": (
        lambda d: d.update(nbformat=3, worksheets=[{"cells": [1] * 5000}]),
        "more than 1000 cells",
    ),
    "one-line": (lambda d: d["cells"].append(cell("import " * 250_000)), None),
    "empty-lines": (lambda d: d["cells"].append(cell("\n" * 1_000_000)), None),
    "lines": (lambda d: d["cells"].append(cell(("import " * 70 + "\n") * 4000)), None),
    "outputs": (
        lambda d: d["cells"].append(
            cell("1")
            | {"outputs": [{"output_type": "stream", "name": "stdout", "text": "x"}] * 100_000}
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", MASSES)
def test_reading_one_file_holds_nobody_up(name: str) -> None:
    change, words = MASSES[name]
    content = with_data(change)
    begin = time.process_time()
    if words is None:
        put_in_order(content, RELEASED)
    else:
        with pytest.raises(Unreadable, match=words):
            put_in_order(content, RELEASED)
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["cells"][3]["metadata"].update(nbgrader={"grade_id": ["a"], "points": {}}),
        lambda d: d["cells"][3]["metadata"].update(nbgrader=7),
        lambda d: d["cells"][3].update(metadata=[1]),
        lambda d: d["cells"][3].update(id=["a"]),
        lambda d: d["cells"][3].update(id='"><script>'),
        lambda d: d["cells"][3].update(cell_type="script"),
        lambda d: d["cells"][3].pop("source"),
        lambda d: d["cells"][3].update(source="\ud800 half a pair"),
        lambda d: d["metadata"].update(kernelspec=5),
        lambda d: d["metadata"].update(kernelspec={"language": ["julia"]}),
        lambda d: d["metadata"].update(minisgl_lite={"version": ["x"], "digest": 3}),
        lambda d: d.update(nbformat_minor="x"),
        lambda d: d.update(cells={"a": 1}),
        lambda d: d.update(nbformat=3, worksheets=7),
    ],
)
def test_odd_json_is_read_or_refused_with_a_reason(change: Any) -> None:
    try:
        content, _ = put_in_order(with_data(change), RELEASED)
    except Unreadable as error:
        assert str(error)
    else:
        nbformat.validate(nbformat.reads(content.decode(), as_version=4))


def test_a_pipe_is_no_notebook(tmp_path: Path) -> None:
    (tmp_path / "ada").mkdir()
    os.mkfifo(tmp_path / "ada" / f"{NAME}.ipynb")
    (submission,) = read_class(tmp_path, "storage", (NAME,))
    assert submission.problem == f"{NAME}.ipynb is no file"


def test_two_names_that_look_alike_are_two_students(tmp_path: Path) -> None:
    for name in (b"Jos\xe9", b"Jos\\xe9", "José".encode(), "Jose\u0301".encode()):
        os.makedirs(os.fsencode(tmp_path) + b"/" + name)
    found = [s.student for s in read_class(tmp_path, "storage", (NAME,))]
    assert len(found) == len(set(found)) == 4
    assert {"Jos\\xe9", "Jos\\xe9 (bytes)", "José", "Jose\u0301"} == set(found)


def test_a_hidden_folder_is_somebodys_and_a_systems_file_is_nobodys(tmp_path: Path) -> None:
    for name in (".ada", "__MACOSX", ".ipynb_checkpoints"):
        (tmp_path / name).mkdir()
    (tmp_path / ".DS_Store").write_bytes(b"")
    assert [s.student for s in read_class(tmp_path, "storage", (NAME,))] == [".ada"]


def test_every_entry_of_a_folder_is_somebodys(tmp_path: Path) -> None:
    names = ["ada", "José =Núñez", '"x, y"', "学生", "ا" * 40, "a[1]"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{NAME}.ipynb").write_bytes(handed_in())
    (tmp_path / "nobody").mkdir()
    (tmp_path / "file.txt").write_text("hello")
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "inner-link").mkdir()
    (tmp_path / "inner-link" / f"{NAME}.ipynb").symlink_to("/etc/passwd")
    (tmp_path / "renamed").mkdir()
    (tmp_path / "renamed" / "my work.ipynb").write_bytes(handed_in())
    (tmp_path / "nested" / "storage").mkdir(parents=True)
    (tmp_path / "nested" / "storage" / f"{NAME}.ipynb").write_bytes(handed_in())
    found = {s.student: s for s in read_class(tmp_path, "storage", (NAME,))}
    others = {"nobody", "file.txt", "link", "inner-link", "renamed", "nested"}
    assert set(found) == {*names, *others}
    graded = [*names, "renamed", "nested"]
    assert all(found[n].notebooks and not found[n].problem for n in graded)
    assert found["renamed"].flags == [f"my work.ipynb was taken for {NAME}.ipynb"]
    assert "symbolic link" in found["link"].problem
    assert "symbolic link" in found["inner-link"].problem
    assert "this is a file" in found["file.txt"].problem
    assert "is there" in found["nobody"].problem


def test_a_name_that_is_no_utf8_is_spelled_out(tmp_path: Path) -> None:
    os.makedirs(os.fsencode(tmp_path) + b"/Jos\xe9")
    (submission,) = read_class(tmp_path, "storage", (NAME,))
    assert submission.student == "Jos\\xe9"


def test_an_enormous_notebook_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    path = tmp_path / "big" / f"{NAME}.ipynb"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 2**31)
    (submission,) = read_class(tmp_path, "storage", (NAME,))
    assert "more than 20 MB" in submission.problem and not submission.notebooks


def test_an_empty_folder_or_none_is_the_commands_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is nothing in"):
        read_class(tmp_path, "storage", (NAME,))
    with pytest.raises(ValueError, match="is no folder"):
        read_class(tmp_path / "none", "storage", (NAME,))
