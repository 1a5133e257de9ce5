"""A formula that a person wrote, read safely: arithmetic, a few functions, columns, unknown coefficients."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from steplab.core.errors import ModelError, allowed
from steplab.models.formulas.formula import Node, column, number, op

FUNCTIONS = ("log", "log2", "sqrt", "exp", "min", "max")
BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow",
}  # fmt: skip
LONGEST = 2000
DEEPEST = 40
MOST_COEFFICIENTS = 30  # more are not found by a search from a few starts, and not believed by anybody


def parse_formula(text: str, columns: Collection[str]) -> Node:
    """The tree of a formula; a name that is no column is a coefficient to be fitted.

    Only what is listed here is understood and nothing is ever evaluated as code; `^` may be written for a
    power, and a column whose name is no plain word goes between backticks.

    >>> parse_formula("a0 + 2", [])
    {'op': 'add', 'args': [{'op': 'coefficient', 'name': 'a0'}, {'op': 'number', 'value': 2.0}]}
    """
    if len(text) > LONGEST:
        raise _wrong(f"it is longer than {LONGEST} characters")
    quoted: dict[str, str] = {}

    def replaced(quote: re.Match[str]) -> str:
        quoted[f"_quoted{len(quoted)}"] = quote[1]
        return f" _quoted{len(quoted) - 1} "

    source = re.sub(r"`([^`]*)`", replaced, text).replace("^", "**").strip()
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _wrong(f"{text!r} is not arithmetic") from None
    node = _node(tree, set(columns), quoted, 0)
    if len(coefficients(node)) > MOST_COEFFICIENTS:
        raise _wrong(f"it has more than {MOST_COEFFICIENTS} coefficients")
    return node


def _wrong(what: str, hint: str = "write such as 'a0 + a1*batch_size*log2(workers)'") -> ModelError:
    return ModelError(what, where="formula", hint=hint)


def _node(tree: ast.expr, columns: set[str], quoted: Mapping[str, str], depth: int) -> Node:
    if depth > DEEPEST:
        raise _wrong("it is nested too deeply")

    def inner(part: ast.expr) -> Node:
        return _node(part, columns, quoted, depth + 1)

    if isinstance(tree, ast.Constant):
        return _constant(tree.value)
    if isinstance(tree, ast.Name):
        return _name(tree.id, columns, quoted)
    if isinstance(tree, ast.BinOp) and type(tree.op) in BINARY:
        return op(BINARY[type(tree.op)], inner(tree.left), inner(tree.right))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return op("neg", inner(tree.operand))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.UAdd):
        return inner(tree.operand)
    if isinstance(tree, ast.Call):
        return op(_function(tree), *(inner(argument) for argument in tree.args))
    try:
        part = f"{ast.unparse(tree)!r}"
    except RecursionError:
        part = "a part of it"
    raise _wrong(f"{part} is not arithmetic")


def _constant(value: object) -> Node:
    # A whole number of hundreds of digits is an int to Python, and no double.
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    if not isinstance(value, int | float) or not fits or not math.isfinite(value):
        raise _wrong(f"{str(value)[:40]!r} is not a number that fits")
    return number(float(value))


def _name(name: str, columns: set[str], quoted: Mapping[str, str]) -> Node:
    if name in quoted:
        if quoted[name] not in columns:
            raise _wrong(f"there is no column {quoted[name]!r}", allowed(sorted(columns)))
        return column(quoted[name])
    return column(name) if name in columns else {"op": "coefficient", "name": name}


def _function(call: ast.Call) -> str:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name not in FUNCTIONS:
        raise _wrong(f"{ast.unparse(call.func)!r} is no function here", allowed(FUNCTIONS))
    enough = len(call.args) >= 2 if name in ("min", "max") else len(call.args) == 1
    if call.keywords or not enough or any(isinstance(argument, ast.Starred) for argument in call.args):
        raise _wrong(f"{name} has the wrong number of arguments")
    return name


def coefficients(tree: Node) -> list[str]:
    """The names of the unknown coefficients, in the order in which they are written."""
    if tree["op"] == "coefficient":
        return [tree["name"]]
    names = (name for part in tree.get("args", ()) for name in coefficients(part))
    return list(dict.fromkeys(names))


def filled(tree: Node, values: Mapping[str, float]) -> Node:
    """The tree with numbers in place of its coefficients."""
    if tree["op"] == "coefficient":
        return number(values[tree["name"]])
    copy: dict[str, Any] = dict(tree)
    if "args" in tree:
        copy["args"] = [filled(part, values) for part in tree["args"]]
    return copy


def with_columns(tree: Node) -> Node:
    """The tree with columns in place of its coefficients, to be computed for many values of them."""
    if tree["op"] == "coefficient":
        return column(tree["name"])
    return {**tree, "args": [with_columns(part) for part in tree["args"]]} if "args" in tree else tree
