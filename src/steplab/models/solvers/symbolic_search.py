"""Expressions found by genetic programming, and the checks that keep only those safe beyond the data.

The search is Operon's (Burlacu, Kronberger and Kommenda: Operon C++, GECCO 2020). It sees columns and target
divided by a typical value of each, so that every expression is a pure number times the target's unit: what it
adds up always has the same unit.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from steplab.models.formulas.formula import Formula, Node, column, number, op
from steplab.models.formulas.parser import coefficients, filled, parse_formula, with_columns

Array = np.ndarray
SYMBOLS = "add,mul,div,sqrt,log,constant,variable"
LENGTH = 16
SEEDS = (1, 2)
MOST_ROWS = 1_000
# How far beyond each measured border a candidate must stay sane, as a factor.
REACH = 4.0
NEGLIGIBLE = 1e-4
ROOT_OF_EPSILON = math.sqrt(np.finfo(float).eps)  # the step of a forward difference
GATHERED: dict[str, Callable[[list[float]], float]] = {"add": sum, "mul": math.prod}


def expressions(X: Array, z: Array, evaluations: int) -> list[Node]:
    """Candidate trees over columns named X1, X2 …, with coefficients c0, c1 … in place of numbers."""
    from pyoperon.sklearn import SymbolicRegressor

    names = [f"X{i + 1}" for i in range(X.shape[1])]
    candidates: dict[str, Node] = {}
    for seed in SEEDS:
        search = SymbolicRegressor(
            allowed_symbols=SYMBOLS, max_length=LENGTH, max_depth=6, population_size=300, generations=1000,
            max_evaluations=evaluations, objectives=["mse", "length"], optimizer_iterations=3, n_threads=1,
            random_state=seed,
        )  # fmt: skip
        for text in _texts(search, X[:MOST_ROWS], z[:MOST_ROWS]):
            if "nan" not in text and "inf" not in text:
                tree = simplified(parse_formula(text, names))
                candidates[Formula(tree).text] = tree
    return [*candidates.values(), *_plain(names)]


def _texts(search: Any, X: Array, z: Array) -> list[str]:
    with warnings.catch_warnings():
        # Operon says so of an expression that is a constant, which is an answer like others.
        warnings.filterwarnings("ignore", "Model contains no variables", UserWarning)
        search.fit(X, z)
        return [str(search.get_model_string(individual["tree"], 9)) for individual in search.pareto_front_]


def _plain(names: Sequence[str]) -> list[Node]:
    """Sums of columns and of their logarithms, and a product of powers: candidates that are always there."""
    straight = [op("mul", number(0.1), column(name)) for name in names]
    curved = [op("mul", number(0.1), op("log", column(name))) for name in names]
    mixed = [op("add", straight[i], *(c for j, c in enumerate(curved) if j != i)) for i in range(len(names))]
    product = op("mul", number(1), *(op("pow", column(name), number(0.1)) for name in names))
    sums = [op("add", number(1), *terms) for terms in (straight, curved)]
    return [*sums, product, *(op("add", number(1), *tree["args"]) for tree in mixed if len(names) > 1)]


def simplified(tree: Node) -> Node:
    """The tree with constant parts computed and with zeros and ones left out."""
    if "args" not in tree:
        return tree
    name = tree["op"]
    args = [simplified(arg) for arg in tree["args"]]
    args = _gathered(name, args) if name in GATHERED else args
    node = op(name, *args)
    if all(arg["op"] == "number" for arg in args):
        value = float(Formula(node).evaluate(pd.DataFrame(index=[0]))[0])
        return number(value) if np.isfinite(value) else node
    idle = {"add": 0.0, "mul": 1.0}.get(name)
    if len(args) == 1 and idle is not None:
        return args[0]
    if idle is not None:
        kept = [a for a in args if a["op"] != "number" or abs(a["value"] - idle) > NEGLIGIBLE]
        return kept[0] if len(kept) == 1 else op(name, *kept)
    return node


def _gathered(name: str, args: list[Node]) -> list[Node]:
    """The arguments of a sum or product with those of inner ones, and all numbers made into one."""
    flat = [inner for arg in args for inner in (arg["args"] if arg["op"] == name else [arg])]
    values = [arg["value"] for arg in flat if arg["op"] == "number"]
    rest = [arg for arg in flat if arg["op"] != "number"]
    return [number(float(GATHERED[name](values))), *rest] if values else rest


def opened(tree: Node) -> tuple[Node, Array]:
    """The tree with coefficients in place of its numbers, and those numbers."""
    values: list[float] = []

    def walk(node: Node) -> Node:
        if node["op"] == "number":
            values.append(node["value"])
            return {"op": "coefficient", "name": f"c{len(values) - 1}"}
        return {**node, "args": [walk(arg) for arg in node["args"]]} if "args" in node else node

    return walk(tree), np.array(values)


def refitted(tree: Node, frame: pd.DataFrame, z: Array, weight: Array) -> Node:
    """The same expression with the numbers that suit these rows best, in relative errors."""
    shape, start = opened(tree)
    names = coefficients(shape)
    if not names:
        return tree
    misses = _Misses(
        Formula(with_columns(shape)), {str(name): frame[name].to_numpy(float) for name in frame}, z, weight
    )
    descent = least_squares(misses.at, start, misses.slopes, x_scale="jac", loss="soft_l1", f_scale=0.1, max_nfev=25)
    return filled(shape, dict(zip(names, (float(value) for value in descent.x), strict=True)))


@dataclass(frozen=True)
class _Misses:
    """The relative errors of an expression in its coefficients c0, c1 …; many of their values are computed at once."""

    shape: Formula
    columns: Mapping[str, Array]
    z: Array
    weight: Array

    def at(self, theta: Array) -> Array:
        """The error of each row."""
        return np.asarray(self._of_all(theta[None, :])[0])

    def slopes(self, theta: Array) -> Array:
        """Forward differences, rows × coefficients: those of all coefficients in one evaluation."""
        step = ROOT_OF_EPSILON * np.where(theta < 0, -1.0, 1.0) * np.maximum(1.0, np.abs(theta))
        step = (theta + step) - theta  # as it is after rounding
        errors = self._of_all(np.vstack([theta, theta + np.diag(step)]))
        return np.asarray((errors[1:] - errors[0]).T / step)

    def _of_all(self, thetas: Array) -> Array:
        """The errors for several vectors of coefficients, vectors × rows."""
        many, rows = len(thetas), len(self.z)
        values = {name: np.tile(column, many) for name, column in self.columns.items()}
        values |= {f"c{k}": np.repeat(thetas[:, k], rows) for k in range(thetas.shape[1])}
        errors = (self.shape.values(values, many * rows).reshape(many, rows) - self.z) * self.weight
        return np.asarray(np.clip(np.nan_to_num(errors, nan=1e3), -1e3, 1e3))


def sane(tree: Node, frame: pd.DataFrame, z: Array) -> bool:
    """Whether the expression stays positive, finite and in proportion well beyond the measured range.

    One column at a time leaves its range by a factor of REACH; the time may then grow or fall by about as
    much, as a linear law would.
    """
    value = Formula(tree).evaluate(_beyond(frame))
    low, high = 0.5 * float(np.min(z)) / REACH, 2 * REACH * float(np.max(z))
    return bool(np.isfinite(value).all() and (value > low).all() and (value < high).all())


def _beyond(frame: pd.DataFrame) -> pd.DataFrame:
    """Places in the measured box, each with one column moved to or beyond its borders."""
    generator = np.random.default_rng(0)
    measured = frame.iloc[generator.integers(0, len(frame), 40)]
    places = [measured]
    for name in frame.columns:
        low, high = float(frame[name].min()), float(frame[name].max())
        ends = (low / REACH, high * REACH) if low > 0 else (low, high + REACH * (high - low))
        places += [measured.assign(**{name: end}) for end in (*ends, (ends[1] * high) ** 0.5 if low > 0 else high)]
    return pd.concat(places, ignore_index=True)
