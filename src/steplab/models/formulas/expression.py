"""The generic expression in the units of the table: (Σ a·I^p + base + levels)·Π E^q + C + Σ s·[N > 1] + Σ g·ln N.

MMU thesis, chapter 4. Levels are differences from a reference level (docs/sources.md, point 9): the first level of
each factor counts 0 and its share is in `base`. The last terms, what several workers or nodes cost beside the
work, are our own; the source has none. Of workers on several nodes, ln N is that of the workers of a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from steplab.models.formulas.formula import Formula, Node, column, level, number, op, power

Columns = pd.DataFrame | Mapping[str, np.ndarray]


def _rows(frame: Columns) -> int:
    return len(frame) if isinstance(frame, pd.DataFrame) else len(next(iter(frame.values())))


@dataclass(frozen=True)
class PerNode:
    """What each e-fold of the workers that share a node costs."""

    workers: str
    nodes: str
    cost: float

    @property
    def name(self) -> str:
        """What the logarithm is taken of."""
        return f"{self.workers}/{self.nodes}"


@dataclass(frozen=True)
class Expression:
    """Fitted coefficients and powers, by column."""

    coef: dict[str, float]
    power: dict[str, float]
    base: float
    levels: dict[str, dict[str, float]]
    scale: dict[str, float]
    constant: float
    steps: dict[str, float] = field(default_factory=dict)  # of counts: what more than one of them costs
    logs: dict[str, float] = field(default_factory=dict)  # of counts: what each e-fold of them costs
    per_node: PerNode | None = None

    def terms(self, frame: Columns) -> np.ndarray:
        """Each intrinsic term of each row, without its coefficient."""
        with np.errstate(divide="ignore"):
            terms = [np.asarray(frame[c], float) ** p if p else np.ones(_rows(frame)) for c, p in self.power.items()]
        return np.column_stack(terms) if terms else np.empty((_rows(frame), 0))

    def outer(self, frame: Columns) -> np.ndarray:
        """The product of the extrinsic factors."""
        product = np.ones(_rows(frame))
        with np.errstate(divide="ignore"):
            for name, q in self.scale.items():
                product = product * (np.asarray(frame[name], float) ** q if q else 1.0)
        return product

    def predict(self, frame: Columns) -> np.ndarray:
        """The value of each row."""
        # A term without weight is left out, or 0·∞ would spoil the sum at a factor of 0.
        used = np.array([a != 0 for a in self.coef.values()], bool)
        coef = np.array(list(self.coef.values()))
        inner = self.base + self.terms(frame)[:, used] @ coef[used]
        for name, values in self.levels.items():
            inner = inner + by_level(np.asarray(frame[name]), values)
        return np.asarray(inner * self.outer(frame) + self.constant + self.of_counts(frame))

    def of_counts(self, frame: Columns) -> np.ndarray:
        """What several workers or nodes cost beside the work."""
        total = np.zeros(_rows(frame))
        for name, cost in self.steps.items():
            total = total + cost * more_than_one(np.asarray(frame[name], float))
        for name, cost in self.logs.items():
            total = total + cost * log_count(np.asarray(frame[name], float))
        if self.per_node is not None:
            total = total + self.per_node.cost * log_per_node(frame, self.per_node.workers, self.per_node.nodes)
        return total

    def formula(self) -> Formula:
        """The expression, terms without weight left out."""
        inner: list[Node] = [
            op("mul", number(a), power(c, self.power[c])) if self.power[c] else number(a)
            for c, a in self.coef.items() if a
        ]  # fmt: skip
        inner += [number(self.base)] if self.base or not inner else []
        inner += [level(c, values) for c, values in self.levels.items() if any(values.values())]
        outer = [power(c, q) for c, q in self.scale.items() if q]
        bracket = op("add", *inner) if len(inner) > 1 else inner[0]
        product = op("mul", bracket, *outer) if outer else bracket
        rest = [number(self.constant)] if self.constant else []
        rest += [op("mul", number(a), _step(c)) for c, a in self.steps.items() if a]
        rest += [op("mul", number(a), _log_count(column(c))) for c, a in self.logs.items() if a]
        if self.per_node is not None and self.per_node.cost:
            sharing = op("div", column(self.per_node.workers), column(self.per_node.nodes))
            rest.append(op("mul", number(self.per_node.cost), _log_count(sharing)))
        return Formula(op("add", product, *rest) if rest else product)

    def to_document(self) -> dict[str, Any]:
        """Plain JSON data; what the expression does not have is left out."""
        counts: dict[str, Any] = {name: costs for name, costs in (("steps", self.steps), ("logs", self.logs)) if costs}
        counts |= {} if self.per_node is None else {"per_node": asdict(self.per_node)}
        return {"coef": self.coef, "power": self.power, "base": self.base, "levels": self.levels,
                "scale": self.scale, "constant": self.constant} | counts  # fmt: skip

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Expression:
        """The inverse of `to_document`."""
        levels = {str(c): _floats(values) for c, values in document["levels"].items()}
        single = _floats({"base": document["base"], "constant": document["constant"]})
        coef, powers = _floats(document["coef"]), _floats(document["power"])
        if set(coef) != set(powers):
            raise ValueError("coefficients and powers do not match")
        # Files from before have no terms of counts.
        steps, logs = (_floats(document.get(name, {})) for name in ("steps", "logs"))
        shared = document.get("per_node")
        per_node = None if shared is None else PerNode(*_names(shared), _floats({"cost": shared["cost"]})["cost"])
        scale = _floats(document["scale"])
        return cls(coef, powers, single["base"], levels, scale, single["constant"], steps, logs, per_node)


def more_than_one(count: np.ndarray) -> np.ndarray:
    """0 up to one, 1 from two on: counts are whole numbers.

    >>> more_than_one(np.array([1.0, 2.0, 8.0])).tolist()
    [0.0, 1.0, 1.0]
    """
    return np.asarray(np.clip(count - 1, 0, 1))


def log_count(count: np.ndarray) -> np.ndarray:
    """The logarithm of a count of at least one."""
    return np.asarray(np.log(np.maximum(count, 1)))


def log_per_node(frame: Columns, workers: str, nodes: str) -> np.ndarray:
    """The logarithm of the workers of a node, of which there is at least one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return log_count(np.asarray(frame[workers], float) / np.asarray(frame[nodes], float))


def _log_count(count: Node) -> Node:
    return op("log", op("max", number(1), count))


def _step(name: str) -> Node:
    return op("min", number(1), op("max", number(0), op("sub", column(name), number(1))))


def by_level(levels: np.ndarray, values: Mapping[str, float]) -> np.ndarray:
    """The number of each row's level; NaN for a level that has none."""
    numbers = np.full(len(levels), np.nan)
    for name, value in values.items():
        numbers[levels == name] = value
    return numbers


def _names(saved: Mapping[str, Any]) -> tuple[str, str]:
    workers, nodes = saved["workers"], saved["nodes"]
    if not (isinstance(workers, str) and isinstance(nodes, str)):
        raise ValueError("a column has no name")
    return workers, nodes


def _floats(values: Mapping[str, Any]) -> dict[str, float]:
    numbers = {str(key): float(value) for key, value in values.items()}
    if not all(np.isfinite(list(numbers.values()))):
        raise ValueError("a number is not finite")
    return numbers
