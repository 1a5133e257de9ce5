"""Support vector regression around a log-linear trend, tuned by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from steplab.models.base import Array, numbers
from steplab.models.families.tuned import Setting, TunedModel

RIDGE = 1.0


@dataclass(frozen=True)
class Vectors:
    """A trend and the support vectors around it."""

    trend: Array
    constant: float
    support: Array
    weights: Array
    intercept: float
    gamma: float

    def smooth(self, X: Array) -> Array:
        """The kernel part."""
        squared = ((X[:, None, :] - self.support[None]) ** 2).sum(-1)
        return np.asarray(np.exp(-self.gamma * squared) @ self.weights + self.intercept)


class SupportVectors(TunedModel):
    """A trend plus a kernel machine on what it leaves (Smola and Schölkopf: A tutorial on SVR, 2004).

    A Gaussian kernel falls back to a constant away from the data. The trend carries on instead, and the
    kernel part stays what it was at the border of the measured range.
    """

    settings: ClassVar[tuple[Setting, ...]] = tuple(
        {"C": c, "epsilon": epsilon, "gamma": gamma}
        for c in (1.0, 10.0, 100.0) for epsilon in (0.05, 0.2) for gamma in (0.1, 0.5)
    )  # fmt: skip
    most_rows: ClassVar[int] = 2_000

    def _train(self, X: Array, z: Array, setting: Setting) -> Vectors:
        from sklearn.svm import SVR

        centred = X - X.mean(0)
        trend = np.linalg.solve(centred.T @ centred + RIDGE * np.eye(X.shape[1]), centred.T @ (z - z.mean()))
        constant = float(z.mean() - X.mean(0) @ trend)
        machine = SVR(C=setting["C"], epsilon=setting["epsilon"], gamma=setting["gamma"])
        machine.fit(X, z - X @ trend - constant)
        return Vectors(
            trend, constant, machine.support_vectors_.reshape(-1, X.shape[1]), machine.dual_coef_[0],
            float(machine.intercept_[0]), setting["gamma"],
        )  # fmt: skip

    def _answer(self, learned: Vectors, X: Array, inside: Array) -> Array:
        return np.asarray(X @ learned.trend + learned.constant + learned.smooth(inside))

    def _learned_state(self) -> Any:
        v = self.learned_
        return {
            "trend": v.trend.tolist(), "constant": v.constant, "support": v.support.tolist(),
            "weights": v.weights.tolist(), "intercept": v.intercept, "gamma": v.gamma,
        }  # fmt: skip

    def _learned_from(self, state: Any, width: int) -> Vectors:
        weights = numbers(state["weights"], None)
        support = numbers(state["support"], len(weights), width) if len(weights) else np.empty((0, width))
        constant, intercept, gamma = numbers([state["constant"], state["intercept"], state["gamma"]], 3)
        trend = numbers(state["trend"], width)
        return Vectors(trend, float(constant), support, weights, float(intercept), float(gamma))


MODEL = SupportVectors
