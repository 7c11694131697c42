"""Versions of an assignment: a notebook says which one it is, and its own checks grade it.

An older version is a folder with its ``minisgl_lite/``, ``solutions/`` and ``exercises/``, such as
a checkout of it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import minisgl_lite

from ..teaching.release import Numbers, put_numbers, version_of
from ..utils import require
from .course import Course
from .intake import version_in

PACKAGE = Path(minisgl_lite.__file__).resolve().parent


@dataclass(frozen=True)
class Version:
    """What was handed out, and who judges it.

    ``course``: nbgrader's folder, as ``Course.create`` made it; ``released``: its notebooks by file
    name; ``digests``: how each says which version it is. ``package``: None for this one.
    """

    course: Path
    released: Mapping[str, Any]
    digests: Mapping[str, str]
    name: str = minisgl_lite.__version__
    package: Path | None = None

    def with_numbers(self, numbers: Numbers) -> Mapping[str, Any]:
        """``released`` as it was handed out with ``numbers``; an older version's as it stands."""
        if self.package is not None:
            return self.released
        return {k: put_numbers(copy.deepcopy(v), numbers) for k, v in self.released.items()}


def present_version(course: Course, sources: Sequence[Path]) -> Version:
    """The assignment as this package has it, made of ``sources``."""
    digests = {path.name: version_of(path)["digest"] for path in sources}
    return Version(course.root, course.released(), digests)


def older_version(folder: Path, names: Sequence[str], scratch: Path) -> Version:
    """The assignment's notebooks as the version in ``folder`` has them.

    ``scratch``: where its course is made.

    Raises:
        ValueError: there is no such version there; the message says what is missing.
    """
    nbformat: Any = require("nbformat", extra="grade")
    digests: dict[str, str] = {}
    name = ""
    sources = []
    for notebook in names:
        source = folder / "solutions" / f"{notebook}.ipynb"
        handed_out = folder / "exercises" / source.name
        if not (source.is_file() and handed_out.is_file()):
            continue  # the assignment had fewer notebooks then
        said = version_in(nbformat.read(handed_out, as_version=4))
        if not said:
            raise ValueError(f"{handed_out} does not say which version it is.")
        name, digests[source.name] = said["version"], said["digest"]
        sources.append(source)
    package = folder / "minisgl_lite"
    if not sources or not (package / "grade" / "job.py").is_file():
        raise ValueError(f"{folder} has no older version: minisgl_lite, solutions and exercises.")
    course = Course.create(scratch, sources)
    return Version(course.root, course.released(), digests, name, package)


def fitting(notebooks: Mapping[str, Any], versions: Sequence[Version]) -> tuple[int, list[str]]:
    """The number of the version that all of ``notebooks`` were handed out as, and flags.

    A notebook that says nothing fits the first. Where none fits, it is the first, and flagged.
    """
    said = {name: version_in(notebook) for name, notebook in notebooks.items()}
    digests = {name: stamp["digest"] for name, stamp in said.items() if stamp}
    for number, version in enumerate(versions):
        if all(
            version.digests.get(name, digest) == digest for name, digest in digests.items()
        ) and (number == 0 or set(notebooks) <= set(version.digests)):
            flag = f"handed out as version {version.name}, and graded by its checks"
            return number, [flag] if number else []
    present = versions[0].digests
    return 0, [
        f"{name}: handed out as version {stamp['version']} ({stamp['digest']}), which is not"
        " installed: graded by the present checks"
        for name, stamp in said.items()
        if stamp and present.get(name) != stamp["digest"]
    ]


__all__ = ["PACKAGE", "Version", "fitting", "older_version", "present_version"]
