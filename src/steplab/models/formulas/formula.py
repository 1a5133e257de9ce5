"""A formula as plain data: printed as text and as LaTeX, computed without running any code.

A node is a dictionary with `op`: `number` (value), `column` (name), `level` (column, values: a number for
each level), `bumps` (args, points, weights: Σ_k weight_k · exp(−½·Σ_j (arg_j − point_kj)²), a smooth function
that fades away from its points), or an operation with `args`. A browser can compute the same tree from the
same JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from steplab.core.errors import ModelError

Node = dict[str, Any]
Array = np.ndarray

MANY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip
BINARY: dict[str, Callable[[Array, Array], Array]] = {"sub": np.subtract, "div": np.divide, "pow": np.power}
UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative, "log2": np.log2, "log": np.log, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs,
}  # fmt: skip
DEEPEST = 60
BLOCK = 4096
# How tightly an operation binds, so that brackets are written only where they are needed.
BINDING = {"add": 1, "sub": 1, "neg": 1, "mul": 2, "div": 2, "pow": 3}


def number(value: float) -> Node:
    """A constant."""
    return {"op": "number", "value": float(value)}


def column(name: str) -> Node:
    """A column's value."""
    return {"op": "column", "name": name}


def level(name: str, values: Mapping[str, float]) -> Node:
    """A number for each level of a categorical column."""
    return {"op": "level", "column": name, "values": {str(k): float(v) for k, v in values.items()}}


def op(name: str, *args: Node) -> Node:
    """An operation on other nodes.

    >>> Formula(op("add", number(2), op("mul", number(0.5), column("x")))).text
    '2 + 0.5·x'
    """
    return {"op": name, "args": list(args)}


def bumps(args: Sequence[Node], points: Array, weights: Array) -> Node:
    """A sum of Gaussian bumps of width 1 in the arguments, one at each point.

    >>> Formula(bumps([column("x")], np.array([[0.0], [3.0]]), np.array([1.0, 0.5]))).text
    'bumps(x; 2 points)'
    """
    return {"op": "bumps", "args": list(args), "points": points.tolist(), "weights": weights.tolist()}


def power(name: str, exponent: float) -> Node:
    """A column to a constant power."""
    return op("pow", column(name), number(exponent))


@dataclass(frozen=True)
class Formula:
    """An expression in the columns of a table."""

    tree: Node

    @property
    def text(self) -> str:
        """The formula on one line, numbers with four digits."""
        return _text(self.tree)[0]

    @property
    def latex(self) -> str:
        """The formula in LaTeX."""
        return _latex(self.tree)[0]

    def evaluate(self, X: pd.DataFrame) -> Array:
        """The formula's value for each row."""
        return self.values({name: X[name].to_numpy() for name in self.columns() if name in X.columns}, len(X))

    def values(self, columns: Mapping[str, Array], rows: int) -> Array:
        """The same from arrays by name, each with a value for every row or one for all."""
        with np.errstate(all="ignore"):
            return np.broadcast_to(_value(self.tree, columns, rows), rows).astype(float)

    def columns(self) -> set[str]:
        """The columns that the formula reads."""
        return _columns(self.tree)

    @classmethod
    def from_document(cls, document: object) -> Formula:
        """A formula from JSON data, checked node by node."""
        _check(document, 0)
        assert isinstance(document, dict)
        return cls(document)


def _columns(node: Node) -> set[str]:
    own = {node["name"]} if node["op"] == "column" else {node["column"]} if node["op"] == "level" else set()
    return own.union(*(_columns(arg) for arg in node.get("args", ())))


def _value(node: Node, X: Mapping[str, Array], rows: int) -> Array:
    name = node["op"]
    if name == "number":
        return np.asarray(node["value"], float)
    if name in ("column", "level"):
        key = node["name"] if name == "column" else node["column"]
        if key not in X:
            raise ModelError(f"the formula needs column {key!r}")
        if name == "column":
            return X[key].astype(float, copy=False)
        return np.array([node["values"].get(str(value), np.nan) for value in X[key].tolist()], float)
    args = [_value(arg, X, rows) for arg in node["args"]]
    if name == "bumps":
        at = np.column_stack([np.broadcast_to(arg, rows) for arg in args])
        return bump_sum(at, np.asarray(node["points"], float), np.asarray(node["weights"], float))
    if name in MANY:
        return reduce(MANY[name], args)
    return BINARY[name](*args) if name in BINARY else UNARY[name](*args)


def bump_sum(at: Array, points: Array, weights: Array) -> Array:
    """Σ_k weight_k · exp(−½·|at − point_k|²) for each row."""
    sums = np.empty(len(at))
    # In blocks, so that a large table against hundreds of points stays in memory.
    for start in range(0, len(at), BLOCK):
        block = at[start : start + BLOCK]
        squared = sum(np.square(block[:, [j]] - points[:, j]) for j in range(points.shape[1]))
        sums[start : start + BLOCK] = np.exp(-0.5 * squared) @ weights
    return sums


def _require(fine: bool, what: str) -> None:
    if not fine:
        raise ModelError(f"the formula is damaged: {what}")


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check(node: object, depth: int) -> None:
    _require(depth < DEEPEST, "it is nested too deeply")
    _require(isinstance(node, dict), "a node is not an object")
    assert isinstance(node, dict)
    name, args = node.get("op"), node.get("args")
    if name == "number":
        _require(_finite(node.get("value")), "a number is not finite")
    elif name == "column":
        _require(isinstance(node.get("name"), str), "a column has no name")
    elif name == "level":
        values = node.get("values")
        _require(isinstance(node.get("column"), str) and isinstance(values, dict), "a level has no values")
        assert isinstance(values, dict)
        _require(all(isinstance(k, str) and _finite(v) for k, v in values.items()), "a level is not a number")
    elif name == "bumps":
        _check_bumps(node)
        for arg in node["args"]:
            _check(arg, depth + 1)
    else:
        _require(isinstance(args, list), f"there is no operation {name!r}")
        assert isinstance(args, list)
        sizes = {**dict.fromkeys(BINARY, 2), **dict.fromkeys(UNARY, 1)}
        _require(name in MANY or name in sizes, f"there is no operation {name!r}")
        _require(len(args) >= 1 if name in MANY else len(args) == sizes[str(name)], f"{name!r} has wrong arguments")
        for arg in args:
            _check(arg, depth + 1)


def _check_bumps(node: Mapping[str, Any]) -> None:
    lists = [node.get(key) for key in ("args", "points", "weights")]
    _require(all(isinstance(part, list) and part for part in lists), "bumps have no points")
    args, points, weights = (list(part or ()) for part in lists)
    _require(len(points) == len(weights), "bumps have a wrong number of weights")
    _require(all(isinstance(p, list) and len(p) == len(args) for p in points), "a point has a wrong size")
    _require(all(_finite(v) for row in (weights, *points) for v in row), "a bump is not a number")


def _digits(value: float) -> str:
    return f"{value:.4g}"


def _bracketed(rendered: tuple[str, int], binding: int, left: str, right: str) -> str:
    text, own = rendered
    return f"{left}{text}{right}" if own < binding else text


def _joined_sum(parts: list[str]) -> str:
    return reduce(lambda a, b: f"{a} - {b[1:]}" if b[0] == "-" else f"{a} + {b}", parts)


def _signed(sign: str, name: str, inner: list[str], args: list[tuple[str, int]]) -> tuple[str, int]:
    """An operation written out; a product may begin with a minus, and then binds like one."""
    if name in ("mul", "div") and args[0][0].startswith("-") and " " not in args[0][0]:
        return sign.join([args[0][0], *inner[1:]]), BINDING["neg"]
    return sign.join(inner), BINDING[name]


def _listed(node: Node) -> list[str]:
    """The columns that a node reads, each once and in order: hundreds of points are no reading matter."""
    return sorted(_columns(node))


def _text(node: Node) -> tuple[str, int]:
    """The text of a node and how tightly it binds."""
    name = node["op"]
    if name == "number":
        return _digits(node["value"]), 9 if node["value"] >= 0 else 1
    if name == "column":
        return node["name"] if node["name"].isidentifier() else f"`{node['name']}`", 9
    if name == "level":
        return f"{node['column']}[" + ", ".join(f"{k}: {_digits(v)}" for k, v in node["values"].items()) + "]", 9
    args, binding = [_text(arg) for arg in node["args"]], BINDING.get(name, 9)
    inner = [_bracketed(arg, binding + (name == "pow" or (name in ("sub", "div") and i > 0)), "(", ")")
             for i, arg in enumerate(args)]  # fmt: skip
    if name == "add":
        return _joined_sum([arg[0] for arg in args]), binding
    if name in ("sub", "mul", "div", "pow"):
        return _signed({"sub": " - ", "mul": "·", "div": "/", "pow": "^"}[name], name, inner, args)
    if name == "neg":
        return f"-{_bracketed(args[0], 2, '(', ')')}", binding
    if name == "bumps":
        return f"bumps({', '.join(_listed(node))}; {len(node['points'])} points)", 9
    return f"{name}({', '.join(arg[0] for arg in args)})", 9


LATEX_CALLS = {"log2": r"\log_2", "log": r"\ln", "exp": r"\exp", "max": r"\max", "min": r"\min"}


def _name_latex(name: str) -> str:
    return r"\mathrm{" + name.replace("\\", r"\backslash ").replace("_", r"\_").replace("%", r"\%") + "}"


def _number_latex(value: float) -> str:
    mantissa, _, exponent = _digits(value).partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def _latex(node: Node) -> tuple[str, int]:
    """The LaTeX of a node and how tightly it binds."""
    name = node["op"]
    if name == "number":
        return _number_latex(node["value"]), 9 if node["value"] >= 0 else 1
    if name == "column":
        return _name_latex(node["name"]), 9
    if name == "level":
        cases = r" \\ ".join(f"{_number_latex(v)} & {_name_latex(k)}" for k, v in node["values"].items())
        return rf"\begin{{cases}} {cases} \end{{cases}}", 9
    args, binding = [_latex(arg) for arg in node["args"]], BINDING.get(name, 9)
    plain = [arg[0] for arg in args]
    inner = [_bracketed(arg, binding + (name == "sub" and i > 0), r"\left(", r"\right)") for i, arg in enumerate(args)]
    if name == "add":
        return _joined_sum(plain), binding
    if name in ("sub", "mul"):
        return _signed({"sub": " - ", "mul": r" \cdot "}[name], name, inner, args)
    if name == "div":
        return rf"\frac{{{plain[0]}}}{{{plain[1]}}}", 9
    if name == "pow":
        return _bracketed(args[0], 4, r"\left(", r"\right)") + f"^{{{plain[1]}}}", binding
    if name == "neg":
        return "-" + _bracketed(args[0], 2, r"\left(", r"\right)"), binding
    if name == "bumps":
        listed = ", ".join(_name_latex(column) for column in _listed(node))
        return rf"\mathrm{{bumps}}_{{{len(node['points'])}}}\left({listed}\right)", 9
    if name in ("sqrt", "abs"):
        return rf"\sqrt{{{plain[0]}}}" if name == "sqrt" else rf"\left|{plain[0]}\right|", 9
    return rf"{LATEX_CALLS[name]}\left({', '.join(plain)}\right)", 9
