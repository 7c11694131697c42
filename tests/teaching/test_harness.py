"""The exercise harness: what travels, and what a learner hears of each kind of mishap."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minisgl_lite.teaching.checks import (
    EXERCISES,
    Exercise,
    Learner,
    NotPassed,
    Wrong,
    check,
    check_all,
    hint,
    load_exercises,
    notebook,
    show_run,
    verdict_on,
)
from minisgl_lite.teaching.checks.judge import judge
from minisgl_lite.teaching.checks.learner import Link
from minisgl_lite.teaching.checks.serve import Server
from minisgl_lite.teaching.checks.wire import Handle, WireError, pack, parse, unpack
from minisgl_lite.teaching.checks.withheld import CounterpartUsed, withheld
from minisgl_lite.trace import Trace

# ---- values on their way ----------------------------------------------------------------------

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(PLAIN)
def test_plain_values_arrive_as_they_were(value: Any) -> None:
    assert unpack(json.loads(json.dumps(pack(value)))) == value


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.bool, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 4)])
def test_tensors_arrive_with_dtype_shape_and_bytes(dtype: torch.dtype, shape: tuple) -> None:
    tensor = (torch.arange(24)[: torch.Size(shape).numel()] % 5).to(dtype).reshape(shape)
    again = unpack(json.loads(json.dumps(pack(tensor))))
    assert again.dtype == dtype and again.shape == tensor.shape and torch.equal(again, tensor)


def test_views_and_not_finite_floats_arrive() -> None:
    view = torch.arange(12, dtype=torch.int32).view(3, 4).t()
    assert torch.equal(unpack(pack(view)), view)
    assert unpack(pack([float("inf"), float("-inf")])) == [float("inf"), float("-inf")]
    assert isinstance(unpack(pack(Handle(3))), Handle)


@pytest.mark.parametrize("value", [{1, 2}, object(), [range(3)], torch.tensor([1j])])
def test_what_does_not_travel_is_named(value: Any) -> None:
    with pytest.raises(WireError, match="can't be compared"):
        pack(value)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"a": 1, "b": 2},
        {"pickle": "x"},
        {"tensor": {"dtype": "int32", "shape": [2**40], "bytes": ""}},
        {"tensor": {"dtype": "int32", "shape": [-1, -1], "bytes": "AAAAAA=="}},
        {"tensor": {"dtype": "object", "shape": [1], "bytes": "AAAAAA=="}},
        {"tensor": {"dtype": "int32", "shape": [1], "bytes": "not base64"}},
        {"dict": [[1]]},
        {"dict": [[[], 1]]},
        {"handle": "x"},
    ],
)
def test_a_strangers_data_are_refused(data: Any) -> None:
    with pytest.raises(WireError):
        unpack(data)


@pytest.mark.parametrize("line", [b"", b"[]", b"done: page-slots", b"[" * 100_000, b"\xff"])
def test_a_line_that_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(WireError, match="is no message"):
        parse(line)


# ---- what a learner hears ----------------------------------------------------------------------


def right(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    column = torch.tensor(starts, dtype=torch.int32).unsqueeze(1)
    return (column + torch.arange(page_size, dtype=torch.int32)).flatten()[:count]


def heard(answer: Callable[..., Any] | None) -> str:
    namespace = {} if answer is None else {"page_slots": answer}
    return verdict_on("page-slots", namespace).line()


def stub(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    raise NotImplementedError("page-slots")


def changes_its_argument(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    starts.sort()
    return right(starts, page_size, count)


def uses_the_counterpart(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    from minisgl_lite.scheduler import CacheManager

    table = torch.zeros((2, 64), dtype=torch.int32)
    manager = CacheManager(64, page_size, table, "naive")
    return manager._page_to_token(torch.tensor(starts, dtype=torch.int32))[:count]


def leaves(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    raise SystemExit(1)


class OwnError(Exception):
    pass


def raises_its_own(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    raise OwnError("two\nlines")


def test_the_right_answer_is_done_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def chatty(starts: list[int], page_size: int, count: int) -> torch.Tensor:
        print("looking at", starts)
        return right(starts, page_size, count)

    assert heard(right) == heard(chatty) == "done: page-slots"
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (stub, "not done yet: page-slots"),
        (None, "there is no page_slots in this notebook; run the cell that defines it"),
        (3, "page_slots is 3, and can't be called; define it as the task says"),
        (lambda starts: 0, "another signature: it takes (starts), and is called with 3 arguments"),
        (lambda s, p, c: None, "returned None (is a return missing?); a tensor is wanted"),
        (lambda s, p, c: {1}, "a set can't be compared"),
        (lambda s, p, c: right(s, p, c).long(), "returned torch.int64; torch.int32 is wanted"),
        (lambda s, p, c: right(s, p, c)[:, None], "shape (0, 1); (0,) is wanted"),
        (lambda s, p, c: s[99], "raised IndexError: list index out of range (line "),
        (changes_its_argument, "changed its argument number 1, which must stay as it was"),
        (uses_the_counterpart, "calls the package's own CacheManager._page_to_token"),
        (leaves, "raised SystemExit: 1 (line "),
        (raises_its_own, "raised OwnError: two (line "),
        (lambda s, p, c: torch.zeros(2**23, dtype=torch.int32), "returned more than 32 MB"),
        (right, "done: page-slots"),  # and the one before left nothing on its way
    ],
)
def test_each_mishap_has_its_own_sentence(answer: Any, words: str) -> None:
    line = heard(answer)
    assert words in line and "\n" not in line and "minisgl_lite/teaching" not in line


def test_who_prints_in_vain_hears_of_it_with_what_is_wrong() -> None:
    def chatty(starts: list[int], page_size: int, count: int) -> list[int]:
        print("looking at", starts)
        return []

    assert heard(chatty).endswith(
        "; a tensor is wanted; what your code prints is held back meanwhile: call it yourself to"
        " see that"
    )
    assert "held back" not in heard(lambda s, p, c: [])


def test_state_between_calls_that_change_their_arguments_is_found() -> None:
    takes: list[int] = []

    def take(free: list[int], count: int) -> bool:
        taken = [free.pop(0) for _ in range(count)]
        takes.extend(taken)
        return len(takes) < 9

    def take_more(free: list[int], count: int) -> bool:
        takes.append(count)
        free[: count + (len(takes) > 3)] = []
        return True

    for function, words in (
        (take, "take([3, 4, 5], 2) returned True at first and False later: it keeps something"),
        (take_more, "take_more([3, 4, 5], 2) left [5] at first and [] later: it keeps something"),
    ):
        takes.clear()
        learner = Learner(InProcess({function.__name__: function}), function.__name__, mutates=(0,))
        free = [3, 4, 5, 6, 7, 8, 9]
        for _ in range(3):
            learner(free[:3], 2)
        with pytest.raises(Wrong, match=re.escape(words)):
            learner.repeat_first_calls()


def test_state_between_calls_is_found() -> None:
    calls: list[int] = []

    def forgetful(starts: list[int], page_size: int, count: int) -> torch.Tensor:
        calls.append(1)
        return right(starts, page_size, count) + (len(calls) > 10**9 or count == -1)

    assert heard(forgetful) == "done: page-slots"

    def aging(starts: list[int], page_size: int, count: int) -> torch.Tensor:
        seen.append(tuple(starts))
        # Right the first time it sees a question, another answer the second time.
        return right(starts, page_size, count) if seen.count(tuple(starts)) < 8 else right([], 1, 0)

    seen: list[tuple[int, ...]] = []
    assert "wrong: page-slots" in heard(aging)


def test_loops_without_end_are_stopped_and_the_next_check_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def endless(starts: list[int], page_size: int, count: int) -> torch.Tensor:
        while True:
            pass

    def stubborn(starts: list[int], page_size: int, count: int) -> torch.Tensor:
        try:
            while True:
                pass
        except Exception:
            return right(starts, page_size, count)

    began = time.monotonic()
    for answer in (endless, stubborn):
        assert "ran for 5.0 seconds and was stopped" in heard(answer)
    assert time.monotonic() - began < 30
    assert heard(right) == "done: page-slots"


def test_a_judge_that_went_away_is_replaced() -> None:
    assert heard(right) == "done: page-slots"
    assert notebook._judge._process is not None
    notebook._judge._process.kill()
    notebook._judge._process.wait()
    assert heard(right) == "done: page-slots"


# ---- objects that stay on the learner's side ----------------------------------------------------


class Shelf:
    def __init__(self, size: int) -> None:
        self.board = torch.zeros(size)

    def view(self) -> torch.Tensor:
        return self.board[1:]

    def copy(self) -> torch.Tensor:
        return self.board[1:].clone()


class InProcess(Link):
    """A link to a server in the same process."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.server, self.calls = Server(namespace), 0

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return json.loads(json.dumps(self.server.answer(json.loads(json.dumps(request)))))


def test_a_kept_view_shows_what_is_written_elsewhere_and_a_copy_does_not() -> None:
    shelf = Learner(InProcess({"Shelf": Shelf}), "Shelf").new(4)
    view, copy, board = shelf.keep("view"), shelf.keep("copy"), shelf.keep_attribute("board")
    view.write([0], 7.0)
    board.write([(2, 4)], torch.tensor([8.0, 9.0]))
    copy.write([0], 1.0)
    assert board.read().tolist() == [0, 7, 8, 9]
    assert view.read().tolist() == [7, 8, 9] and copy.read().tolist() == [1, 0, 0]
    assert shelf.get("board").tolist() == [0, 7, 8, 9]
    with pytest.raises(Wrong, match=r"writing to Shelf\.view\(\) raised IndexError"):
        view.write([5], 1.0)
    for missing in (shelf.get, shelf.keep_attribute):
        with pytest.raises(Wrong, match="an object of your Shelf has no 'lid'"):
            missing("lid")


def test_what_is_dropped_gives_its_number_to_nobody() -> None:
    shelf = Learner(InProcess({"Shelf": Shelf}), "Shelf").new(2)
    first, second = shelf.keep("copy"), shelf.keep("copy")
    first.drop()
    assert shelf.keep("copy").handle not in (first.handle, second.handle)


# ---- what is taken away meanwhile ----------------------------------------------------------------


def test_a_counterpart_refuses_whoever_imported_it_before() -> None:
    from minisgl_lite.scheduler import cache, mapping
    from minisgl_lite.scheduler.mapping import make_positions

    names = [
        "minisgl_lite.scheduler.mapping:make_positions",
        "minisgl_lite.scheduler.cache:CacheManager.lazy_free_region",  # wrapped by a decorator
        "minisgl_lite.scheduler.cache:CacheManager.available_size",  # a property
    ]
    manager = cache.CacheManager(2, 1, torch.zeros((1, 32), dtype=torch.int32), "naive")
    with withheld(names):
        for call in (
            lambda: make_positions(None, None),
            lambda: mapping.make_positions(None, None),
            lambda: manager.lazy_free_region().__enter__(),
            lambda: manager.available_size,
        ):
            with pytest.raises(CounterpartUsed):
                call()
    assert manager.available_size == 2
    with manager.lazy_free_region():
        pass


def test_an_explanation_has_no_verdict() -> None:
    fields = dict(objective="", difficulty=1, minutes=1, points=1, page="", misconceptions=())
    explain = Exercise("say-why", "explain", "say-why", hints=("", "", ""), **fields)  # type: ignore[arg-type]
    assert judge(explain, InProcess({}), [0]).line() == (
        "not done yet: say-why: a person reads this one, no check does"
    )
    for kind, parts, words in [
        ("explain", {"check": print}, "is read by a person"),
        ("build", {}, "neither a check nor a template"),
        ("predict", {"check": print}, "has a template and no check"),
    ]:
        with pytest.raises(ValueError, match=words):
            Exercise("x", kind, "x", hints=("", "", ""), **fields, **parts)  # type: ignore[arg-type]


# ---- the three functions of a notebook ---------------------------------------------------------


def test_check_prints_one_line_and_returns_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "page_slots", stub)
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    assert check("page-slots") is None
    assert capsys.readouterr().out == "not done yet: page-slots\n"


def test_under_nbgrader_what_is_not_done_raises(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    monkeypatch.setitem(globals(), "page_slots", stub)
    with pytest.raises(NotPassed, match="not done yet: page-slots") as caught:
        check("page-slots")
    assert caught.value._render_traceback_() == ["NotPassed: not done yet: page-slots"]
    monkeypatch.setitem(globals(), "page_slots", right)
    check("page-slots")
    assert capsys.readouterr().out == "done: page-slots\n"


def test_check_all_sums_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "_numbers", {})
    monkeypatch.setitem(globals(), "page_slots", right)
    check("kv-budget")  # nothing is defined for it: its cell failed, or was not run
    check_all()
    said = capsys.readouterr().out.splitlines()
    assert said[0] == said[1] and said[0].startswith("wrong: kv-budget: there is no kv_budget")
    assert said[2:] == ["done: page-slots", "1 of 2 done"]


def test_hints_come_one_by_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "_hints_shown", {})
    for _ in range(4):
        hint("page-slots")
    lines = capsys.readouterr().out.splitlines()
    assert [line[:12] for line in lines] == [f"Hint {n} of 3:"[:12] for n in (1, 2, 3, 3)]


def test_a_run_with_the_learners_code_is_shown_as_far_as_it_went(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def page_numbers(starts: list[int], page_size: int, count: int) -> torch.Tensor:
        return right([start * page_size for start in starts], page_size, count)

    shown: dict[str, tuple[str, int]] = {}
    for answer in (stub, right, page_numbers, lambda *args: [0]):
        monkeypatch.setitem(globals(), "page_slots", answer)
        view = show_run("page-slots", panels=["pool"])
        frames = 0 if view is None else len(Trace.from_widget(view.trace))
        shown[answer.__name__] = (capsys.readouterr().out, frames)
    assert shown["stub"] == ("not done yet: page-slots\n", 0)
    assert shown["right"][0] == "" and shown["right"][1] > 20
    said, frames = shown["page_numbers"]
    # What would be written outside of the pool can't be drawn.
    assert said.startswith("wrong: page-slots: step 1 fails") and "outside the pool" in said
    assert 0 < frames < shown["right"][1]
    assert "a tensor is wanted" in shown["<lambda>"][0]
    monkeypatch.setenv(notebook.JUDGE, "/nowhere")
    assert show_run("page-slots") is None
    monkeypatch.delenv(notebook.JUDGE)
    with pytest.raises(ValueError, match="'order-of-lookup' has no run to show"):
        show_run("order-of-lookup")


def one_after_another(starts: list[int], page_size: int, count: int) -> torch.Tensor:
    """Column by column: slots of one request land on another's pages."""
    slots = [start + place for place in range(page_size) for start in starts]
    return torch.tensor(slots[:count], dtype=torch.int32)


def test_what_the_sanitizer_finds_in_it_is_marked_and_shown_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "page_slots", one_after_another)
    view = show_run("page-slots", panels=["pool"], start="allocate:r1")
    assert "the KV sanitizer stops it: step 1" in capsys.readouterr().out
    trace = Trace.from_widget(view.trace)
    fault = next(i for i, frame in enumerate(trace.frames) if "fault" in frame)
    assert json.loads(view.options)["start"] == fault < len(trace) - 1
    assert trace.frames[fault]["fault"]["slot"] is not None


@pytest.mark.parametrize(
    ("name", "answer", "words", "frames"),
    [
        ("kv-budget", lambda *args: 8, "8 pages has a pool of 1152 of 1100 bytes", 20),
        ("kv-budget", lambda *args: 6, "6 pages has a pool of 896 of 1100 bytes", 20),
        ("kv-budget", lambda *args: 10**6, "there is no such pool", 0),
        ("paged-attention", lambda q, *args: q * 0, "in the engine, step 1, layer 0, request 1", 5),
    ],
)
def test_a_wrong_answer_is_seen_at_work(
    name: str, answer: Any, words: str, frames: int, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), EXERCISES[name].answer, answer)
    view = show_run(name, panels=["pool"])
    assert words in capsys.readouterr().out
    shown = 0 if view is None else len(Trace.from_widget(view.trace))
    assert (shown > frames) if frames else view is None


def test_an_unknown_exercise_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'page-slot'; known: .*page-slots"):
        check("page-slot")


def test_every_exercise_is_complete() -> None:
    load_exercises()
    answers = [EXERCISES[name].answer for name in EXERCISES.supported_names()]
    assert len(answers) == len(set(answers))
