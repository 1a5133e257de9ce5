"""Data generated from the published coefficients of the generic model, with noise: the source-sized problem.

1000 random configurations of `mmu_4_1_parameters.csv` (six numeric and four categorical intrinsic factors,
two extrinsic), times from `mmu_4_3_l2.csv` (MMU thesis, chapter 4), 5 % multiplicative noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

DATA = Path(__file__).resolve().parent.parent / "docs" / "sources" / "data" / "published"
FRAMEWORKS = ("mxnet", "pytorch", "tensorflow")


@dataclass(frozen=True)
class Published:
    """A generated table, the noise-free times, and the truth behind them."""

    X: pd.DataFrame
    y: np.ndarray
    truth: dict[tuple[str, str], float]
    intrinsic: tuple[str, ...]
    categorical: tuple[str, ...]
    extrinsic: tuple[str, ...]

    @property
    def roles(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """The columns in the order of a model's first three options."""
        return self.intrinsic, self.categorical, self.extrinsic

    def expected(self, name: str, symbol: str) -> float:
        """The true value of a parameter in reference-level coding (first level in alphabetical order)."""
        reference = {c: f"{c}={min(self.X[c].unique())}" for c in self.categorical}
        if symbol == "b":
            return sum(self.truth[level, "a"] for level in reference.values())
        if symbol == "d":
            return self.truth[name, "a"] - self.truth[reference[name.partition("=")[0]], "a"]
        return self.truth[name, symbol]


def _columns(rows: int, rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, tuple[str, ...]]]:
    factors = pd.read_csv(DATA / "mmu_4_1_parameters.csv")
    made, kinds = {}, {"intrinsic": (), "categorical": (), "extrinsic": ()}
    for kind, name, levels in factors[["kind", "name", "levels"]].itertuples(index=False):
        values = levels.split(";")
        numeric = kind != "categorical"
        made[name] = rng.choice(np.array([float(v) for v in values] if numeric else values, object), rows)
        if numeric:
            made[name] = made[name].astype(float)
        kinds[kind] += (name,)
    return pd.DataFrame(made), kinds


def generate(framework: str, *, rows: int = 1000, seed: int = 0, noise: float = 0.05) -> Published:
    """The data set of one framework."""
    rng = np.random.default_rng(seed)
    X, kinds = _columns(rows, rng)
    table = pd.read_csv(DATA / "mmu_4_3_l2.csv").query("framework == @framework")
    truth = {(p, s): float(m) for p, s, m in table[["parameter", "symbol", "mean"]].itertuples(index=False)}
    inner = sum(truth[c, "a"] * X[c].to_numpy() ** truth[c, "p"] for c in kinds["intrinsic"])
    for c in kinds["categorical"]:
        inner = inner + np.array([truth[f"{c}={level}", "a"] for level in X[c]])
    outer = np.prod([X[c].to_numpy() ** truth[c, "q"] for c in kinds["extrinsic"]], axis=0)
    y = (inner * outer + truth["constant", "C"]) * (1 + noise * rng.standard_normal(rows))
    return Published(X, y, truth, **kinds)
