"""Hooks cost next to nothing while nobody listens, and each call of one fits its declaration."""

from __future__ import annotations

import ast
import inspect
import time
import timeit
from collections.abc import Iterator
from pathlib import Path

import pytest

import minisgl_lite
from minisgl_lite.hooks import Hooks, Listener

PACKAGE = Path(minisgl_lite.__file__).parent
EVENTS = {name for name in vars(Listener) if name.startswith("on_")}


def emits(tree: ast.AST, guards: tuple[str, ...] = ()) -> Iterator[tuple[ast.Call, bool]]:
    """Calls of ``….emit("on_…", …)``, and whether a test of ``active`` stands around each."""
    if isinstance(tree, ast.If | ast.For):
        guards = (*guards, ast.unparse(tree.test if isinstance(tree, ast.If) else tree.iter))
    if isinstance(tree, ast.Call) and ast.unparse(tree.func).endswith(".emit"):
        yield tree, any("hooks.active" in guard for guard in guards)
    for child in ast.iter_child_nodes(tree):
        yield from emits(child, guards)


def calls() -> list[tuple[str, ast.Call, bool]]:
    """In the engine: where, what, whether guarded."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        if parts[0] in ("trace", "viz", "teaching", "grade", "bench"):
            continue
        for call, guarded in emits(ast.parse(path.read_text(encoding="utf-8"))):
            found.append((f"{'/'.join(parts)}:{call.lineno}", call, guarded))
    return found


def test_every_call_of_a_hook_asks_first_whether_anybody_listens() -> None:
    assert [where for where, _, guarded in calls() if not guarded] == []


def test_every_call_names_a_hook_and_gives_what_it_takes() -> None:
    named = set()
    for where, call, _ in calls():
        event, *rest = call.args
        names = {node.value for node in ast.walk(event) if isinstance(node, ast.Constant)}
        assert names and names <= EVENTS and not call.keywords, where
        for name in names:
            parameters = list(inspect.signature(getattr(Listener, name)).parameters)[1:]
            assert len(rest) == len(parameters), where
        named |= names
    assert named == EVENTS  # and every hook is called somewhere


@pytest.mark.parametrize("listening", [False, True], ids=["nobody", "another hook's listener"])
def test_a_hook_that_nobody_hears_costs_at_most_a_microsecond(listening: bool) -> None:
    """The best of many short runs, in processor time: other programs do not count."""
    hooks = Hooks()
    if listening:
        hooks.attach(Listener())
    code = "if hooks.active: hooks.emit('on_attention_done', 1, 2, 3, 4)"
    names = {"hooks": hooks}
    best = min(timeit.repeat(code, globals=names, number=2000, repeat=50, timer=time.thread_time))
    assert best / 2000 < 1e-6
