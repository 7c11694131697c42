"""A step that fails, or an observer that does, costs its own requests at most, never the engine."""

from __future__ import annotations

import pytest
from helpers.books import audit, audit_idle
from helpers.reading import STOP, ReadingEngine, alone
from helpers.world import LOOPS, World, make_world

from minisgl_lite.hooks import Listener

each_loop = pytest.mark.parametrize("loop", LOOPS)

PROMPTS = {0: [1, 2, 3, 4, 0], 1: [1, 2, 3, 4, 1, 1], 2: [2, 2]}
TOKENS = 6


def filled(loop: str, **kwargs) -> World:
    w = make_world(24, 2, loop=loop, eos=STOP, engine=ReadingEngine, **kwargs)
    for uid, prompt in PROMPTS.items():
        w.add(uid, prompt, max_tokens=TOKENS, ignore_eos=True)
    return w


def said_alone(prompt: list[int]) -> list[int]:
    w = make_world(24, 2, eos=STOP, engine=ReadingEngine)
    w.add(0, prompt, max_tokens=TOKENS, ignore_eos=True)
    w.run()
    return w.tokens_of(0)


def make_raising(hook: str, n: int) -> Listener:
    """Hooks are looked up on the class, so each gets a class of its own."""

    class Raising(Listener):
        left = n

    def call(self: Raising, *args: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyError("planted")

    setattr(Raising, hook, call)
    return Raising()


HOOKS = [name for name in vars(Listener) if name.startswith("on_")]


@each_loop
@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_hook_that_raises_ends_its_turn_and_leaves_the_engine_usable(
    loop: str, hook: str, n: int
) -> None:
    """The error names the listener; the requests go on in the next turn, as if it had not been."""
    w = filled(loop, budget=4)
    listener = make_raising(hook, n)
    w.scheduler.hooks.attach(listener)
    errors = 0
    for _ in range(100):
        if not w.busy:
            break
        try:
            w.step()
        except RuntimeError as error:
            errors += 1
            assert "Raising" in str(error) and hook in str(error)
            assert "planted" in str(error) and "\n" not in str(error)
        audit(w.scheduler)
    assert errors <= 1
    assert errors == (listener.left <= 0)
    audit_idle(w.scheduler)
    for uid, prompt in PROMPTS.items():
        assert w.tokens_of(uid) == said_alone(prompt)
    assert not w.engine.wrong_reads


def test_listeners_are_called_by_rising_order_and_all_of_them() -> None:
    w = filled("normal")
    calls: list[str] = []

    def make(name: str, fails: bool = False) -> Listener:
        class Noting(Listener):
            def on_launch(self, batch: object, batch_id: int) -> None:
                calls.append(name)
                if fails:
                    raise ValueError(name)

        return Noting()

    w.scheduler.hooks.attach(make("third"), order=30)
    w.scheduler.hooks.attach(make("first", fails=True), order=10)
    w.scheduler.hooks.attach(make("second"), order=20)
    with pytest.raises(RuntimeError, match="first"):
        w.step()
    assert calls == ["first", "second", "third"]


def test_a_detached_listener_is_called_no_more() -> None:
    w = filled("normal")
    listener = make_raising("on_turn_begin", 2)
    w.scheduler.hooks.attach(listener)
    with pytest.raises(ValueError, match="Raising"):
        w.scheduler.hooks.attach(listener)
    w.step()
    w.scheduler.hooks.detach(listener)
    w.run()
    audit_idle(w.scheduler)


# --- the engine itself fails ---------------------------------------------------------------------


def fail_once(w: World, where: str, n: int) -> None:
    """Make one part of the n-th step raise: before or after the lengths moved, or earlier."""
    owner, name = {
        "before": (w.engine, "forward_batch"),
        "after": (w.engine, "forward_batch"),
        "metadata": (w.engine.attn_backend, "prepare_metadata"),
        "sampler": (w.engine.sampler, "prepare"),
        "padding": (w.engine.graph_runner, "pad_batch"),
    }[where]
    inner, left = getattr(owner, name), n

    def failing(*args: object) -> object:
        nonlocal left
        left -= 1
        if left != 0:
            return inner(*args)
        if where == "after":
            inner(*args)
        raise ArithmeticError("planted")

    setattr(owner, name, failing)


@each_loop
@pytest.mark.parametrize("where", ["before", "after", "metadata", "sampler", "padding"])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_step_that_fails_ends_its_requests_and_loses_no_page(
    loop: str, where: str, n: int
) -> None:
    w = filled(loop, budget=4)
    fail_once(w, where, n)
    failed = 0
    for _ in range(100):
        if not w.busy:
            break
        try:
            w.step()
        except ArithmeticError:
            failed += 1
        audit(w.scheduler)
    assert failed == 1
    audit_idle(w.scheduler)
    for uid, prompt in PROMPTS.items():
        replies = w.replies_of(uid)
        assert [finished for _, finished in replies] == [False] * (len(replies) - 1) + [True]
        said = [token for token, _ in replies if token != -1]
        assert said == said_alone(prompt)[: len(said)]
    w.add(9, [3, 3, 3], max_tokens=3, ignore_eos=True)
    w.run()
    assert w.tokens_of(9) == said_alone([3, 3, 3])[:3]
    audit_idle(w.scheduler)


def test_the_oracle_of_these_tests_is_the_plain_function() -> None:
    assert STOP not in said_alone([2, 2])[:1] or alone([2, 2], 1) == [STOP]
    assert said_alone([2, 2])[: len(alone([2, 2], TOKENS))] == alone([2, 2], TOKENS)
