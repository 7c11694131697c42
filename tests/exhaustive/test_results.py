"""What is written about the whole run holds for the worlds and faults that there are."""

from __future__ import annotations

from pathlib import Path

from exhaustive.faults import FAULTS
from exhaustive.worlds import COUNTED

ROOT = Path(__file__).resolve().parents[2]
RESULTS = (ROOT / "tests/exhaustive/RESULTS.md").read_text(encoding="utf-8")


def test_the_written_run_is_of_the_whole_bound_and_found_nothing() -> None:
    total = f"{sum(COUNTED.values()):,}"
    assert f"{total} runs in" in RESULTS
    assert "No violation." in RESULTS
    (line,) = [line for line in RESULTS.splitlines() if line.startswith("| all |")]
    assert line.split("|")[2].strip() == total and line.split("|")[4].strip() == "0"


def test_the_book_gives_the_same_numbers() -> None:
    page = (ROOT / "book/summary.ipynb").read_text(encoding="utf-8")
    hidden = RESULTS.count("| cannot be shown:")
    assert f"{sum(COUNTED.values()):,} runs" in page
    assert f"Of {len(FAULTS)} faults put in" in page
    assert f"the same worlds show {len(FAULTS) - hidden}; the other three" in page and hidden == 3
