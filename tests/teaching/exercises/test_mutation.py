"""The mutants of ``make mutation``: what they change, and that a check tells them apart."""

from __future__ import annotations

import pytest

from tests.teaching.exercises.equivalent import EQUIVALENT, OVERLOOKED
from tests.teaching.exercises.mutants import mutants
from tests.teaching.exercises.mutation import FAST, TABLE, answers, count, passes

CODE = """
def f(a: int) -> int:
    b = a + 1  # given
    ### BEGIN SOLUTION
    c: int = 2 if a < 3 else -b
    return max(b, c)
    ### END SOLUTION
"""


def test_only_the_solution_is_changed_and_types_are_not() -> None:
    found = list(mutants(CODE))
    changes = {(mutant.before, mutant.after) for mutant in found}
    assert ("c: int = 2 if a < 3 else -b", "c: int = 2 if a <= 3 else -b") in changes
    assert ("c: int = 2 if a < 3 else -b", "c: int = -b if a < 3 else 2") in changes
    assert ("return max(b, c)", "return min(b, c)") in changes
    assert len(changes) == len(found) == len({mutant.source for mutant in found})
    assert all(
        ("b = a + 1" in m.source and "c: int" in m.source) or "pass" in m.source for m in found
    )
    for mutant in found:
        compile(mutant.source, "mutant", "exec")


def test_mutants_of_an_answer_are_counted_and_the_answer_itself_passes() -> None:
    answer = next(answer for answer in answers() if answer.name == "page-slots")
    assert passes(answer, answer.source, FAST)
    assert not passes(answer, answer.source.replace("torch.int32", "torch.int64"), FAST)
    assert not passes(answer, "def page_slots(", FAST)
    counted = count(answer, say=lambda line: None)
    assert counted.total == counted.fast + counted.full + len(counted.survivors) > 10
    assert counted.share >= 0.95


@pytest.mark.parametrize("key", [*EQUIVALENT, *OVERLOOKED], ids=" ".join)
def test_what_is_set_aside_is_still_a_mutant(key: tuple[str, str, str]) -> None:
    (answer,) = [answer for answer in answers() if answer.name == key[0]]
    assert (key[1], key[2]) in {(m.before, m.after) for m in mutants(answer.source)}


def test_every_build_exercise_has_a_line_in_the_table() -> None:
    lines = TABLE.read_text(encoding="utf-8").split("\n")
    listed = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    assert {answer.name for answer in answers()} <= set(listed)
