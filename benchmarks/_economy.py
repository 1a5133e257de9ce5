"""How many trials a design needs to reach the held-out error that random sampling has with its full budget.

The full budget is every configuration of the table that is not held out, as the source spent all of its 1,500 trials
on one fit. A fifth is held out. A design has reached the error at the first size of a grid (steps of a fifth) at which
its own error, averaged with that of the next size, is no larger. One seed's last error is luck: what is to be reached
is the mean of the seed's own and of that of all seeds.

What random sampling is fitted with can be read in three ways, and each is printed:
same       the same predictor as the design: the better of the adaptive design's own Gaussian process and the generic
           formula, by trials that were left out of the fit. Only the choice of trials differs.
source     the generic formula by absolute error, as the source did: random trials with its model are what there was.
readable   the better on that table of the laboratory's two readable models, `generic` and `hybrid`.
Each once exactly, and once to within five per cent of the error (4.2 % where random sampling has 4.0 %), which is about
as far as two random samples of the same size are apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from _design_peers import DESIGNS
from _oracles import TARGET, Oracle
from steplab.core.errors import SteplabError
from steplab.models import load_model_class
from steplab.planning.adaptive.space import Space
from steplab.planning.adaptive.surrogate import learn

Array = np.ndarray
MEAN_SHARE, WORST_SHARE = 0.25, 0.5
NEARLY = 1.05
STEP = 1.2
SMALLEST = 6
WORST_MISS = 10.0  # a prediction that is off by more counts as that
READINGS = ("same", "source", "readable")
UNFITTED = (SteplabError, ValueError, ArithmeticError, np.linalg.LinAlgError)


def error(logs: Array, held_out: Oracle) -> float:
    """The mean relative error in per cent."""
    told = np.exp(np.minimum(logs, 50.0))
    return 100 * float(np.mean(np.minimum(np.abs(told / held_out.y - 1), WORST_MISS)))


@dataclass(frozen=True)
class Split:
    """What may be measured, and what is held out."""

    pool: Oracle
    held_out: Oracle

    @property
    def budget(self) -> int:
        """All that may be measured."""
        return len(self.pool.y)

    def by_surrogate(self, rows: Array) -> tuple[Array, Array]:
        """The logarithms that the surrogate tells of what is held out, and of each row from the others."""
        both = Space(pd.concat([self.pool.X, self.held_out.X], ignore_index=True))
        surrogate = learn(both, rows.tolist(), np.log(self.pool.y[rows]))
        return surrogate.mean(np.arange(self.budget, len(both.frame))), surrogate.left_out()

    def by_model(self, name: str, rows: Array, **options: str) -> tuple[Array, Array] | None:
        """The same of a performance model; None if it cannot be fitted to so few rows."""
        roles = self.pool.roles
        model = load_model_class(name)(roles.intrinsic, roles.categorical, roles.extrinsic, **options)
        model.roles_, model.target_ = roles, TARGET
        frame, y, at = self.pool.X.iloc[rows].reset_index(drop=True), self.pool.y[rows], self.held_out.X
        try:
            model._learn(frame, y, None)
            left_out = model._held_out(frame, y, None) if options else y
        except UNFITTED:
            return None
        known, told = model._known(at), np.full(len(at), np.median(y))
        told[known] = model._predict(at[known].reset_index(drop=True))
        return tuple(np.log(np.maximum(values, 1e-12)) for values in (told, left_out))

    def error(self, rows: Array) -> float:
        """The held-out error of the better predictor, by what each tells of trials that were left out."""
        best, left = self.by_surrogate(rows)
        generic = self.by_model("generic", rows, loss="relative")
        logs = np.log(self.pool.y[rows])
        if generic is not None and np.abs(generic[1] - logs).mean() < np.abs(left - logs).mean():
            best = generic[0]
        return error(best, self.held_out)

    def model_error(self, name: str) -> float:
        """The held-out error of a performance model fitted to all that may be measured."""
        told = self.by_model(name, np.arange(self.budget))
        return np.inf if told is None else error(told[0], self.held_out)


def goals(splits: list[Split]) -> dict[str, list[float]]:
    """What is to be reached with each seed, by reading."""
    models = {name: [split.model_error(name) for split in splits] for name in ("generic", "hybrid")}
    own = {
        "same": [split.error(np.arange(split.budget)) for split in splits],
        "source": models["generic"],
        "readable": min(models.values(), key=np.mean),
    }
    return {name: [0.5 * (value + float(np.mean(values))) for value in values] for name, values in own.items()}


def reached(errors: Mapping[int, float], goal: float) -> int | None:
    """The least size at which the error, averaged with that of the next one, is down to the goal."""
    sizes = sorted(errors)
    return next((size for size, after in pairwise(sizes) if 0.5 * (errors[size] + errors[after]) <= goal), None)


def curve(design: str, split: Split, seed: int, goal: float) -> dict[int, float]:
    """The held-out errors at the sizes of the grid, as far as it takes to reach the goal."""
    sizes = [round(SMALLEST * STEP**power) for power in range(60)]
    wanted = sorted({size for size in sizes if size < split.budget} | {split.budget})
    errors: dict[int, float] = {}
    for rows in DESIGNS[design](split.pool, split.budget, seed):
        while wanted and len(rows) >= wanted[0]:
            size = wanted.pop(0)
            errors[size] = split.error(rows[:size])
            if reached(errors, goal) is not None:
                return errors
    return errors


def economy(tables: Iterable[Oracle], seeds: int) -> bool:
    """Trials needed by each design, as shares of the full budget, in every reading."""
    kinds = [(reading, slack) for reading in READINGS for slack in (1.0, NEARLY)]
    shares: dict[tuple[str, float, str], list[list[float]]] = {}
    for table in tables:
        began = time.process_time()
        splits = [Split(*table.split(seed)) for seed in range(seeds)]
        goal = goals(splits)
        budget = splits[0].budget
        print(f"\n{table.name}: full budget {budget} trials; random sampling then errs by "
              + ", ".join(f"{np.mean(goal[name]):.2f} % ({name})" for name in READINGS), flush=True)  # fmt: skip
        for design in DESIGNS:
            curves = [curve(design, split, seed, min(values[seed] for values in goal.values()))
                      for seed, split in enumerate(splits)]  # fmt: skip
            for reading, slack in kinds:
                sizes = [reached(c, slack * g) for c, g in zip(curves, goal[reading], strict=True)]
                shares.setdefault((reading, slack, design), []).append([(size or budget) / budget for size in sizes])
            cells = "".join(f"{np.mean(shares[*kind, design][-1]):>9.2f}" for kind in kinds)
            print(f"    {design:14}{cells}", flush=True)
        print(f"    {time.process_time() - began:.0f} s of CPU", flush=True)
    return _judged(shares, kinds)


def _judged(
    shares: Mapping[tuple[str, float, str], list[list[float]]], kinds: list[tuple[str, float]]
) -> bool:  # fmt: skip
    """Every reading with its verdict; the mark is that of the first: the same predictor, exactly."""
    verdicts = []
    print(f"\n{'economy':34}" + "".join(f"{name:>14}" for name in DESIGNS))
    for reading, slack in kinds:
        means = {name: float(np.mean(shares[reading, slack, name])) for name in DESIGNS}
        worst = max(float(np.mean(table)) for table in shares[reading, slack, "adaptive"])
        verdicts.append(means["adaptive"] <= MEAN_SHARE and worst <= WORST_SHARE)
        kind = f"{reading}, {'exactly' if slack == 1 else f'within {slack - 1:.0%}'}"
        print(f"{kind:34}" + "".join(f"{mean:>14.2f}" for mean in means.values())
              + f"   worst table {worst:.2f} {'pass' if verdicts[-1] else 'FAIL'}")  # fmt: skip
    return verdicts[0]
