"""Small changes to a piece of code, one at a time: what a learner might have written instead."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any, NamedTuple


class Mutant(NamedTuple):
    """``before`` and ``after``: the changed statement; ``source``: the whole changed code."""

    line: int
    before: str
    after: str
    source: str


def mutants(source: str, begin: str = "### BEGIN SOLUTION", end: str = "### END SOLUTION") -> Any:
    """Every mutant of what stands between the marks, each once, in order."""
    tree = ast.parse(source)
    inside = _lines_between(source, begin, end)
    statements = _statements(tree)
    seen = {ast.unparse(tree)}
    words = _annotations(tree)
    for index, node in enumerate(ast.walk(tree)):
        line = getattr(node, "lineno", 0)
        if line not in inside or node in words:
            continue
        for number, _ in enumerate(_variants(copy.deepcopy(node))):
            changed = copy.deepcopy(tree)
            target = list(ast.walk(changed))[index]
            replacement = list(_variants(target))[number]
            _Replace(target, replacement).visit(changed)
            ast.fix_missing_locations(changed)
            text = ast.unparse(changed)
            if text not in seen:
                seen.add(text)
                before, after = _first_difference(ast.unparse(tree), text)
                yield Mutant(statements.get(line, line), before, after, text)


def _lines_between(source: str, begin: str, end: str) -> set[int]:
    lines: set[int] = set()
    inside = False
    for number, line in enumerate(source.split("\n"), start=1):
        if begin in line or end in line:
            inside = begin in line
        elif inside:
            lines.add(number)
    return lines


def _annotations(tree: ast.AST) -> set[ast.AST]:
    """What stands in types; nothing comes of it when the code runs."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        for part in ("annotation", "returns"):
            if (annotation := getattr(node, part, None)) is not None:
                found |= set(ast.walk(annotation))
    return found


def _statements(tree: ast.AST) -> dict[int, int]:
    """For each line the line on which its statement begins."""
    return {
        line: node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and not hasattr(node, "body")
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _first_difference(before: str, after: str) -> tuple[str, str]:
    """The lines that differ, without their indentation."""
    old, new = before.split("\n"), after.split("\n")
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1

    def shown(lines: list[str]) -> str:
        return " ⏎ ".join(line.strip() for line in lines[head : len(lines) - tail]) or "nothing"

    return shown(old), shown(new)


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, replacement: ast.AST) -> None:
        self.target, self.replacement = target, replacement

    def visit(self, node: ast.AST) -> Any:
        return self.replacement if node is self.target else self.generic_visit(node)


BINARY: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv, ast.Add),
    ast.FloorDiv: (ast.Mult, ast.Mod),
    ast.Mod: (ast.FloorDiv,),
    ast.Div: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitAnd: (ast.BitOr,),
}
COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
NAMES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "int32": "int64",
    "float32": "float64",
    "append": "extend",
    "pop": "remove",
    "k_cache": "v_cache",
    "v_cache": "k_cache",
    "argmin": "argmax",
    "zeros": "ones",
    "ones": "zeros",
}

SYMMETRIC = ("min", "max", "transpose", "maximum", "minimum", "equal")
"""Functions that don't care which of two arguments comes first."""


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of ``node``; each yielded node is a new one."""
    yield from _expressions(node)
    yield from _statement(node)


def _with(node: ast.AST, **changes: Any) -> Any:
    made = copy.copy(node)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp):
        for operator in BINARY.get(type(node.op), ()):
            yield _with(node, op=operator())
        yield node.left
        yield node.right
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
        yield from node.values
    elif isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            for other in COMPARED.get(type(operator), ()):
                yield _with(node, ops=[*node.ops[:at], other(), *node.ops[at + 1 :]])
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.IfExp):
        yield _with(node, body=node.orelse, orelse=node.body)
    elif isinstance(node, ast.Slice):
        for part in ("lower", "upper", "step"):
            if getattr(node, part) is not None:
                yield _with(node, **{part: None})
    elif isinstance(node, ast.Attribute | ast.Name):
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        if name in NAMES:
            key = "attr" if isinstance(node, ast.Attribute) else "id"
            yield _with(node, **{key: NAMES[name]})
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Tuple | ast.List) and len(node.elts) == 2:
        yield _with(node, elts=node.elts[::-1])
    elif isinstance(node, ast.comprehension):
        yield from (_with(node, iter=iterated) for iterated in _iterations(node.iter))
        if node.ifs:
            yield _with(node, ifs=[])


def _constants(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)
    elif isinstance(node.value, float):
        yield ast.Constant(node.value + 1)
        yield ast.Constant(-node.value)
    elif isinstance(node.value, str):
        yield ast.Constant(node.value + "?")


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    function = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if len(node.args) >= 2 and function not in SYMMETRIC:
        yield _with(node, args=[node.args[1], node.args[0], *node.args[2:]])
    optional = isinstance(node.func, ast.Attribute) or len(node.args) >= 2
    for at in range(len(node.args) if optional else 0):
        yield _with(node, args=[*node.args[:at], *node.args[at + 1 :]])
    for at in range(len(node.keywords)):
        yield _with(node, keywords=[*node.keywords[:at], *node.keywords[at + 1 :]])
    if isinstance(node.func, ast.Attribute):
        yield node.func.value  # the method is not called
    elif len(node.args) == 1 and not node.keywords:
        yield node.args[0]


def _iterations(iterated: ast.expr) -> Iterator[ast.expr]:
    """Backwards, without the first, without the last."""
    listed = ast.Call(ast.Name("list", ast.Load()), [iterated], [])
    one, minus_one = ast.Constant(1), ast.UnaryOp(ast.USub(), ast.Constant(1))
    for lower, upper, step in ((None, None, minus_one), (one, None, None), (None, minus_one, None)):
        yield ast.Subscript(listed, ast.Slice(lower, upper, step), ast.Load())


def _statement(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.Delete):
        yield ast.Pass()
        if isinstance(node, ast.AugAssign):
            for operator in BINARY.get(type(node.op), ()):
                yield _with(node, op=operator())
    elif isinstance(node, ast.Return) and node.value is not None:
        yield _with(node, value=None)
    elif isinstance(node, ast.If | ast.While):
        yield _with(node, test=ast.Constant(False))
        if isinstance(node, ast.If):
            yield _with(node, test=ast.Constant(True))
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.For):
        yield from (_with(node, iter=iterated) for iterated in _iterations(node.iter))
    elif isinstance(node, ast.Break):
        yield ast.Continue()
    elif isinstance(node, ast.Continue):
        yield ast.Break()
    elif isinstance(node, ast.Raise):
        yield ast.Pass()
