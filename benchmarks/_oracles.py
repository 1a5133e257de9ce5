"""Tables as oracles: every configuration was measured before, so a design can be tried without measuring anything.

Generated: LeNet-5 from the published coefficients with 5 % noise (`_published`). Measured by others: step times of
distributed training (`_pollux_splits`), one row for each configuration, the median of what was measured of it. Measured
here: the folder of `studies/lenet-economy.toml`, if it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from _pollux_splits import COLUMNS, TARGET, measured
from _published import generate
from steplab.models.columns.roles import Roles
from steplab.planning.adaptive.space import Space

ROWS = 1500
HELD_OUT = 0.2
TUNED_ON = ("lenet mxnet", "pollux bert", "pollux ncf")
JUDGED_ON = ("lenet pytorch", "pollux cifar10", "pollux deepspeech2", "pollux imagenet", "pollux yolov3")


@dataclass(frozen=True)
class Oracle:
    """Configurations with their times."""

    name: str
    X: pd.DataFrame
    y: np.ndarray  # seconds of a step
    per_sample: np.ndarray  # what `best` minimises
    roles: Roles

    def split(self, seed: int) -> tuple[Oracle, Oracle]:
        """What may be measured, and what is held out."""
        order = np.random.default_rng([seed, 11]).permutation(len(self.y))
        cut = round(HELD_OUT * len(order))
        return self._some(np.sort(order[cut:])), self._some(np.sort(order[:cut]))

    def _some(self, rows: np.ndarray) -> Oracle:
        return Oracle(
            self.name, self.X.iloc[rows].reset_index(drop=True), self.y[rows], self.per_sample[rows], self.roles
        )

    @property
    def space(self) -> Space:
        """The configurations to choose from."""
        return Space(self.X)


def oracle(name: str, real: Path | None = None) -> Oracle:
    """The table of that name."""
    kind, _, which = name.partition(" ")
    if kind == "lenet" and which == "measured":
        assert real is not None
        return _real(real)
    return _generated(name, which) if kind == "lenet" else _pollux(name, which)


def _generated(name: str, framework: str) -> Oracle:
    table = generate(framework, rows=ROWS, seed=1)
    return Oracle(name, table.X, table.y, table.y, Roles(*table.roles))


def _pollux(name: str, workload: str) -> Oracle:
    rows = measured(workload, "placements").groupby(COLUMNS, as_index=False)[TARGET].median()
    X, y = rows[COLUMNS].astype(float), rows[TARGET].to_numpy(float)
    return Oracle(name, X, y, y / (X["num_replicas"] * X["local_bsz"]).to_numpy(), Roles((), (), tuple(COLUMNS)))


def _real(folder: Path) -> Oracle:
    import steplab

    results = steplab.open(folder)
    ok = results.trials[results.trials["status"] == "ok"]
    factors = [name for name in results.factors if ok[name].nunique() > 1]
    rows = ok.groupby(factors, as_index=False)["t_iter"].median()
    numeric = [name for name in factors if pd.api.types.is_numeric_dtype(rows[name])]
    extrinsic = tuple(name for name in numeric if name in ("batch_size", "workers"))
    roles = Roles(
        tuple(n for n in numeric if n not in extrinsic), tuple(n for n in factors if n not in numeric), extrinsic
    )
    X = rows[factors].astype(dict.fromkeys(numeric, float))
    y = rows["t_iter"].to_numpy(float)
    return Oracle("lenet measured", X, y, y / X.get("batch_size", pd.Series(np.ones(len(y)))).to_numpy(), roles)


def oracles(names: tuple[str, ...], real: Path | None) -> Iterator[Oracle]:
    """The named tables."""
    for name in names:
        yield oracle(name, real)
