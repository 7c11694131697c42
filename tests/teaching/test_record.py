"""One script, recorded on our engine, with published behaviours, and on mini-sglang itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from minisgl_lite.teaching.published import PUBLISHED
from minisgl_lite.teaching.record import record_script
from tests.teaching.sides import minisgl

IMPORT = "from minisgl_lite.toy import Toy\n"
STALE = (
    IMPORT
    + """
toy = Toy(page_size=4, num_pages=8, max_running_req=8)
toy.add("a b c d e f g h i", says="x")
toy.add("a b c d e f g h i", says="x y z")
toy.step()
toy.add("k l m n o p q r s t u v w j", says="x")
toy.run()
"""
)
TOO_MANY = (
    IMPORT
    + """
toy = Toy(page_size=4, num_pages=3)
toy.add("a b c d e", says="x")
toy.add("k l m n o", says="x")
toy.run()
"""
)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.py"


def test_a_script_shows_what_a_behaviour_changes(script: Path) -> None:
    script.write_text(STALE)
    ours = record_script(script)
    stale = record_script(script, behaviours=["stale-rows"])
    assert ours.error is None and stale.error is None
    difference = ours.trace.compare(stale.trace)
    assert difference is not None and difference.turn == 1
    assert difference.left["release"][1]["remapped"] == [[0, 8]]
    assert difference.right["release"][1]["remapped"] is None
    assert record_script(script).trace.digest() == ours.trace.digest()


def test_an_error_that_leaves_the_loop_ends_the_trace_and_is_told(script: Path) -> None:
    script.write_text(TOO_MANY)
    assert record_script(script).error is None
    ended = record_script(script, behaviours=["token-wise-admission"])
    assert ended.error is not None and ended.error.startswith("RuntimeError: can't evict")
    assert ended.trace.frames[0]["phase"] == "receive"


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "makes 0 Toys"), (IMPORT + "Toy()\nToy()\n", "makes 2 Toys")],
)
def test_a_script_plays_one_toy(script: Path, text: str, message: str) -> None:
    script.write_text(text)
    with pytest.raises(ValueError, match=message):
        record_script(script)


def test_what_can_not_be_recorded_is_named(script: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no script .*script\.py"):
        record_script(script)
    script.write_text(STALE)
    with pytest.raises(ValueError, match="unknown published behaviour 'stale'"):
        record_script(script, behaviours=["stale"])
    with pytest.raises(ValueError, match="give either it or behaviours"):
        record_script(script, minisgl=script, behaviours=["stale-rows"])
    with pytest.raises(ValueError, match="holds no mini-sglang"):
        record_script(script, minisgl=script.parent)


def test_an_error_of_the_script_itself_passes_through(script: Path) -> None:
    script.write_text(IMPORT + "Toy()\n1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        record_script(script)


@pytest.mark.reference
def test_mini_sglang_itself_leaves_the_same_trace_as_our_subclasses(script: Path) -> None:
    script.write_text(STALE)
    theirs = record_script(script, minisgl=minisgl().root)
    ours = record_script(script, behaviours=PUBLISHED.supported_names())
    assert theirs.error is None
    assert theirs.trace.digest() == ours.trace.digest()


@pytest.mark.reference
def test_an_error_of_mini_sglang_is_told_too(script: Path) -> None:
    script.write_text(TOO_MANY)
    ended = record_script(script, minisgl=minisgl().root)
    assert ended.error == "AssertionError: Cannot evict 4, only 0 is evictable"
