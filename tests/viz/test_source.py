"""Code shown in a page, with the place it stands at."""

from __future__ import annotations

from pathlib import Path

import pytest

from minisgl_lite import kernel
from minisgl_lite.scheduler import CacheManager
from minisgl_lite.teaching.record import find_script
from minisgl_lite.viz import source


def test_a_method_is_shown_with_file_and_line() -> None:
    text = source(CacheManager.allocate_paged).data
    assert text.startswith("```python\ndef allocate_paged(")
    assert "\n```\n\n`minisgl_lite/scheduler/cache.py`, line " in text


def test_a_file_is_shown_whole() -> None:
    script = find_script("stale-rows")
    text = source(script).data
    assert text.startswith("```python\n" + script.read_text().rstrip() + "\n```\n")
    assert text.endswith("`minisgl_lite/teaching/scripts/stale_rows.py`")


def test_a_readers_file_is_named_without_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("x = 1\n")
    assert source(file).data == "```python\nx = 1\n```\n\n`mine.py`"


def test_a_function_is_shown_from_a_file_that_is_not_imported() -> None:
    folder = Path(kernel.__file__).parent
    text = source(folder / "triton_store.py", "store_kernel").data
    assert text.startswith(
        '```python\n@triton.jit(do_not_specialize=["num_tokens"])\ndef store_kernel('
    )
    assert "def scatter_rows" not in text
    assert "\n```\n\n`minisgl_lite/kernel/triton_store.py`, line " in text
    with pytest.raises(ValueError, match=r"triton_store.py has no function or class 'stor'"):
        source(folder / "triton_store.py", "stor")
