"""Decision trees as arrays of nodes: saved as JSON, walked with NumPy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steplab.models.saved_parts import numbers

Array = np.ndarray


@dataclass(frozen=True)
class Trees:
    """All trees in one set of arrays; a node without children is its own child, so walking may go on."""

    roots: Array
    feature: Array
    threshold: Array
    left: Array
    right: Array
    value: Array
    depth: int

    def each(self, X: Array) -> Array:
        """The prediction of every tree for every row, rows × trees."""
        # scikit-learn splits on single precision; the same rounding gives the same leaves.
        X = X.astype(np.float32)
        node = np.tile(self.roots, (len(X), 1))
        rows = np.arange(len(X))[:, None]
        for _ in range(self.depth):
            goes_left = X[rows, self.feature[node]] <= self.threshold[node]
            node = np.where(goes_left, self.left[node], self.right[node])
        return np.asarray(self.value[node])

    def first(self, number: int) -> Trees:
        """The first trees alone, with the nodes of all."""
        return replace(self, roots=self.roots[:number])

    def to_document(self) -> dict[str, Any]:
        """Plain JSON data."""
        names = ("roots", "feature", "threshold", "left", "right", "value")
        return {name: getattr(self, name).tolist() for name in names} | {"depth": self.depth}

    @classmethod
    def from_document(cls, document: dict[str, Any], width: int) -> Trees:
        """The inverse of `to_document`; indices that lead nowhere are refused."""
        threshold, value = numbers(document["threshold"], None), numbers(document["value"], None)
        count = len(value)
        index = {n: numbers(document[n], None).astype(int) for n in ("roots", "feature", "left", "right")}
        limits = {"roots": count, "feature": width, "left": count, "right": count}
        fine = all(((index[n] >= 0) & (index[n] < limits[n])).all() for n in limits)
        sizes = {len(threshold), *(len(index[n]) for n in ("feature", "left", "right"))}
        depth = int(document["depth"])
        if not fine or sizes != {count} or not len(index["roots"]) or not 0 <= depth <= 1000:
            raise ValueError("the trees are damaged")
        return cls(index["roots"], index["feature"], threshold, index["left"], index["right"], value, depth)


def from_estimators(estimators: Iterable[Any]) -> Trees:
    """The trees of fitted scikit-learn decision trees."""
    roots, parts, total, depth = [], [], 0, 0
    for estimator in estimators:
        tree = estimator.tree_
        own = np.arange(tree.node_count)
        leaf = tree.children_left < 0
        parts.append((
            np.where(leaf, 0, tree.feature), np.where(leaf, 0.0, tree.threshold),
            np.where(leaf, own, tree.children_left) + total, np.where(leaf, own, tree.children_right) + total,
            tree.value[:, 0, 0],
        ))  # fmt: skip
        roots.append(total)
        total += tree.node_count
        depth = max(depth, int(tree.max_depth))
    feature, threshold, left, right, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Trees(np.array(roots), feature, threshold, left, right, value, depth)
