"""Who handed in after the deadline."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minisgl_lite.grade.intake import read_class
from minisgl_lite.grade.late import UNKNOWN, lateness, moment

DUE = "2026-12-01 23:59 UTC"


@pytest.mark.parametrize(
    ("said", "late"),
    [
        ("2026-12-01 23:58:59.999 UTC", ""),
        ("2026-12-01 23:59:00 UTC", ""),
        ("2026-12-01 23:59:01 UTC", "0 h 1 min"),
        ("2026-12-03T01:04:00", "25 h 5 min"),
        ("2026-12-02 00:30:00.123456 Europe/Berlin", ""),
        ("2026-12-01 19:00 America/New_York", "0 h 1 min"),
        ("2026-12-02 00:29:00+01:00", ""),
        ("yesterday", UNKNOWN),
        ("", UNKNOWN),
        ("9" * 90, UNKNOWN),
    ],
)
@pytest.mark.parametrize("inner", ["", "first-half"])
def test_the_time_beside_a_submission_is_held_against_the_deadline(
    said: str, late: str, inner: str, tmp_path: Path
) -> None:
    folder = tmp_path / "Ada" / inner
    folder.mkdir(parents=True)
    (folder / "timestamp.txt").write_text(said + "\n")
    assert lateness(read_class(tmp_path, "first-half", ("x",)), DUE) == {"Ada": late}


def test_no_time_a_link_and_a_pipe_are_unknown(tmp_path: Path) -> None:
    for name in ("none", "link", "pipe"):
        (tmp_path / name).mkdir()
    (tmp_path / "link" / "timestamp.txt").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe" / "timestamp.txt")
    found = lateness(read_class(tmp_path, "first-half", ("x",)), DUE)
    assert found == dict.fromkeys(("link", "none", "pipe"), UNKNOWN)


@pytest.mark.parametrize("due", ["soon", "2026-13-01", ""])
def test_a_deadline_that_is_none_is_refused(due: str) -> None:
    with pytest.raises(ValueError, match="is no time; write it like '2026-12-01 23:59 UTC'"):
        moment(due)
