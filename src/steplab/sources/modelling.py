"""What the studies of the generic model share: held-out errors, parameters over seeds, the penalty scan.

All of it is computed once, when records become small tables: an evolution takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import Bounds, differential_evolution

from steplab.core.blas import one_thread
from steplab.core.errors import ModelError, NotEnoughData
from steplab.models import load_model_class
from steplab.models.columns.roles import Roles, canonical_order, features
from steplab.models.generic import Generic
from steplab.models.generic_de import objective_of, rounded
from steplab.models.judging.penalty_scan import scan
from steplab.models.judging.selection import held_out, metrics, random_folds
from steplab.models.solvers.prepare import Prepared, prepare
from steplab.models.solvers.varpro import Array, Penalty, PowersPoint
from steplab.sources.claim import CONFIRMED, REFUTED, UNDECIDED, Claim, Estimate, below, resampled, undecided
from steplab.sources.drawing import chart

MODELS = ("generic", "random-forest", "svr")
FOLDS = 5
FEWEST = 30  # rows of a framework from which on its models are worth a word
SEEDS = 10
GENERATIONS = 200  # of an evolution at most, for time; the source took SciPy's 1000
PENALTY = Penalty("l2", 0.001, 0.001)  # the source's choice
AS_GOOD = 1.10  # a model whose error is at most a tenth larger is called as good
RESAMPLES = 2000
STABLE = 0.5  # what at least halves the spread over the seeds makes coefficients stable
LEAST_SPREAD = 1e-9  # of the median step
TARGET = "t_iter"
PER_LEVEL, REFERENCE = "per level", "reference"
Spreads = pd.Series  # by framework and parameter


@dataclass(frozen=True)
class FrameworkRows:
    """The rows of one framework, and the part that each column plays."""

    framework: str
    trials: pd.DataFrame
    roles: Roles

    @property
    def target(self) -> Array:
        """The measured step times."""
        return self.trials[TARGET].to_numpy(float)

    @property
    def groups(self) -> Array | None:
        """The configuration of each row where some are replicates: those must leave a fit together."""
        columns = list(self.roles.columns)
        if not self.trials[columns].duplicated().any():
            return None
        return self.trials.groupby(columns, sort=False, dropna=False).ngroup().to_numpy()


def by_framework(trials: pd.DataFrame, roles: Roles) -> Iterator[FrameworkRows]:
    """The trials of each framework; columns that do not vary carry nothing."""
    for name, rows in trials.groupby("framework", sort=True):
        yield FrameworkRows(str(name), rows.reset_index(drop=True), _varying(rows, roles))


def _varying(rows: pd.DataFrame, roles: Roles) -> Roles:
    def kept(columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(c for c in columns if c in rows.columns and rows[c].nunique() > 1)

    return Roles(kept(roles.intrinsic), kept(roles.categorical), kept(roles.extrinsic))


def steps(trials: pd.DataFrame) -> pd.DataFrame:
    """What was measured of each framework: how many configurations, and the step of the fastest to the slowest."""
    grouped = trials.groupby(["framework", "workers"])[TARGET]
    told = grouped.agg(trials="size", fastest_s="min", median_s="median", slowest_s="max")
    return told.reset_index()


def errors(own: FrameworkRows, models: Sequence[str] = ()) -> pd.DataFrame:
    """Each row's step time, measured and as models predict it that have not seen its fold."""
    groups = own.groups
    try:
        splits = random_folds(len(own.trials), groups, FOLDS)
    except NotEnoughData:
        return pd.DataFrame()
    tables = []
    for name in models or MODELS:
        roles = own.roles
        model = load_model_class(name)(roles.intrinsic, roles.categorical, roles.extrinsic)
        predicted = held_out(model, own.trials[list(roles.columns)], own.target, splits, groups).predicted
        told = {"framework": own.framework, "model": name, "trial": own.trials["trial"]}
        tables.append(pd.DataFrame({**told, "measured": own.target, "predicted": predicted}))
    return pd.concat(tables, ignore_index=True)


def predicted_chart(errors: pd.DataFrame) -> str:
    """What `generic` predicts for rows that it has not seen against what was measured."""
    own = errors[errors["model"] == "generic"]
    labels = ("measured step, seconds", "predicted step, seconds")
    return chart(own, "measured", "predicted", "framework", labels=labels, log=True, joined=False)


def accuracy(errors: pd.DataFrame) -> pd.DataFrame:
    """MAE, MAPE (per cent of the measured value), RMSE and R² of each model in each framework."""
    if errors.empty:
        return pd.DataFrame(columns=["framework", "model"])
    rows = []
    for (framework, model), part in errors.dropna().groupby(["framework", "model"], sort=True):
        judged = metrics(part["measured"].to_numpy(float), part["predicted"].to_numpy(float))
        numbers = {"mae": judged.mae, "mape": judged.mape, "rmse": judged.rmse, "r2": judged.r2}
        rows.append({"framework": framework, "model": model, **numbers})
    return pd.DataFrame(rows)


def parameters(own: FrameworkRows) -> pd.DataFrame:
    """The generic model's parameters from every seed, as many as the source had."""
    return evolved(own, SEEDS, GENERATIONS)


def solved(own: FrameworkRows) -> pd.DataFrame:
    """The parameters of `generic`: the same expression, solved; one answer from every seed, with intervals."""
    roles = own.roles
    try:
        model = Generic(roles.intrinsic, roles.categorical, roles.extrinsic, form="source")
        model.fit(own.trials[list(roles.columns)], own.target)
    except ModelError:  # too few rows
        return pd.DataFrame()
    names = ("name", "symbol", "value", "low", "high", "identified")
    rows = [{name: getattr(parameter, name) for name in names} for parameter in model.parameters()]
    return pd.DataFrame(rows).rename(columns={"name": "parameter"}).assign(framework=own.framework)


def evolved(own: FrameworkRows, seeds: int, generations: int) -> pd.DataFrame:
    """The generic model's parameters from every seed: by evolution as in the source, with and without its penalty.

    The categorical coefficients stand in both codings: one for each level, as in the source, and as differences from
    the first level. Both are of the same fits: where they differ, the coding is the reason.
    """
    frame = features(own.trials[list(own.roles.columns)], own.roles)
    order = canonical_order(frame, own.target)  # as every model sorts its rows: the last bits steer an evolution
    frame, target = frame.iloc[order].reset_index(drop=True), own.target[order]
    levels = {c: tuple(sorted(frame[c].unique())) for c in own.roles.categorical}
    rows: list[dict[str, object]] = []
    for penalty in (Penalty(), PENALTY):
        prepared = rounded(prepare(frame, target, own.roles, levels, "absolute", penalty))
        for seed in range(seeds):
            with one_thread():
                point = _evolution(prepared, seed, generations)
            told = {"framework": own.framework, "penalty": penalty.kind if penalty.coef else "none", "seed": seed}
            rows += [{**told, **parameter} for parameter in _parameters(prepared, point)]
    return pd.DataFrame(rows)


def _evolution(prepared: Prepared, seed: int, generations: int) -> PowersPoint:
    low, high, objective = objective_of(prepared.problem)
    rng = np.random.default_rng(seed)
    best = differential_evolution(objective, Bounds(low, high), rng=rng, maxiter=generations)
    split = len(prepared.problem.low)
    theta, coef = np.asarray(best.x[:split]), np.asarray(best.x[split:])
    basis = prepared.problem.basis(theta)
    return PowersPoint(theta, coef, basis, prepared.problem.y - basis @ coef, float(best.fun))


def _parameters(prepared: Prepared, point: PowersPoint) -> Iterator[dict[str, object]]:
    """Every parameter, those of levels in both codings; in the table's units, and in typical ones."""
    expression, at = prepared.expression(point), len(prepared.intrinsic)
    for place, name in enumerate(prepared.intrinsic):
        yield _parameter(name, "a", expression.coef[name], point.coef[place])
        yield _parameter(name, "p", expression.power[name], point.theta[place])
    for name in prepared.extrinsic:
        yield _parameter(name, "q", expression.scale[name], expression.scale[name])
    unit = prepared.unit * float(np.prod([prepared.typical[c] ** -expression.scale[c] for c in prepared.extrinsic]))
    for name, known in prepared.levels.items():
        for place, level in enumerate(known):
            share, apart = point.coef[at + place], point.coef[at + place] - point.coef[at]
            yield _parameter(f"{name}={level}", "a", share * unit, share, PER_LEVEL)
            if place:
                yield _parameter(f"{name}={level}", "d", apart * unit, apart, REFERENCE)
        at += len(known)
    yield _parameter("constant", "C", expression.constant, point.coef[-1])


def _parameter(name: str, symbol: str, value: float, typical: float, coding: str = "") -> dict[str, object]:
    return {"parameter": name, "symbol": symbol, "coding": coding, "value": float(value), "typical": float(typical)}


def over_seeds(parameters: pd.DataFrame, penalty: str) -> pd.DataFrame:
    """Mean and standard deviation of each parameter over the seeds, levels as in the source."""
    chosen = parameters[(parameters["penalty"] == penalty) & (parameters["coding"].fillna("") != REFERENCE)]
    grouped = chosen.groupby(["framework", "parameter", "symbol"], sort=False)["value"]
    return grouped.agg(mean="mean", std="std").reset_index()


def narrower(question: str, measure: str, first: Spreads, second: Spreads, questions: int) -> Claim:
    """Whether the second way lets the seeds agree: the spread of categorical coefficients is at most half as large.

    Coefficients are paired by name and resampled. Spreads are standard deviations over the seeds in typical units (the
    median step is 1), so that a coefficient near zero does not make its spread look large.
    """
    pairs = pd.concat({"first": first, "second": second}, axis=1).dropna()
    # Evolutions that agree to the last digit have no spread; a logarithm needs one.
    apart = np.maximum(pairs.to_numpy(float), LEAST_SPREAD)
    estimate = resampled(np.log(apart[:, 1] / apart[:, 0]), questions)
    if estimate is None:
        return undecided(question, "There are no coefficients from several seeds.", measure)
    ratio = Estimate.of_logs(estimate.value, estimate.low, estimate.high, estimate.n)
    verdict = below(ratio, STABLE)
    words = {CONFIRMED: "Yes", REFUTED: "No", UNDECIDED: "Not sure"}[verdict]
    told = f"{words}: the spread over the seeds is {ratio} times as large; stable is below {STABLE:g}."
    return Claim(question, measure, ratio, verdict, told)


def spreads(parameters: pd.DataFrame, penalty: str, coding: str) -> Spreads:
    """Of each categorical coefficient its standard deviation over the seeds."""
    chosen = parameters[(parameters["penalty"] == penalty) & (parameters["coding"] == coding)]
    deviations: Spreads = chosen.groupby(["framework", "parameter"])["typical"].std().dropna()
    return deviations


def penalties(own: FrameworkRows) -> pd.DataFrame:
    """The λ scan: held-out R² and MAPE of `generic` for each penalty and strength, as `steplab penalty` makes it."""
    roles = own.roles
    try:
        rows = scan(own.trials[list(roles.columns)], own.target, roles, own.groups)
    except (ModelError, ValueError):  # too few rows for its folds
        return pd.DataFrame()
    told = [{"penalty": row.penalty, "strength": row.strength, "r2": row.r2, "mape": row.mape} for row in rows]
    return pd.DataFrame(told).assign(framework=own.framework)


def joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Those of the tables that hold anything, one below the other."""
    filled = [table for table in tables if not table.empty]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame()


def as_good_as_forest(question: str, errors: pd.DataFrame) -> Claim:
    """Whether the generic model is as good as the random forest: its held-out MAPE is at most a tenth larger.

    Rows are resampled in pairs, so that a row that is hard for both counts for both; frameworks have equal weight.
    """
    measure = "MAPE of generic over that of the forest"
    if errors.empty or not {"generic", "random-forest"} <= set(errors["model"]):
        return undecided(question, "There are too few rows to hold some out.", measure)
    estimate = _ratio_of_errors(errors)
    if estimate is None:
        return undecided(question, "One of the models could not predict the held-out rows.", measure)
    good = estimate.high <= AS_GOOD
    verdict = CONFIRMED if good else REFUTED if estimate.low > AS_GOOD else UNDECIDED
    words = {CONFIRMED: "It is", REFUTED: "It is not", UNDECIDED: "The rows cannot tell"}[verdict]
    told = (
        f"{words}: on held-out rows its relative error is {estimate} times the forest's; as good is up to {AS_GOOD:g}."
    )
    return Claim(question, measure, estimate, verdict, told)


def _ratio_of_errors(errors: pd.DataFrame) -> Estimate | None:
    relative = errors.assign(error=(errors["predicted"] / errors["measured"] - 1).abs())
    wide = relative.pivot_table("error", ["framework", "trial"], "model")
    wide = wide.reindex(columns=["generic", "random-forest"]).dropna()
    if len(wide) < 2 * FOLDS:
        return None
    rng, logs = np.random.default_rng(0), np.zeros(RESAMPLES + 1)
    parts = [part.to_numpy(float) for _, part in wide.groupby("framework")]
    for part in parts:
        rows = np.vstack([np.arange(len(part)), rng.integers(0, len(part), (RESAMPLES, len(part)))])
        means = part[rows].mean(axis=1)
        logs += np.log(means[:, 0] / means[:, 1]) / len(parts)
    low, high = np.quantile(logs[1:], [0.025, 0.975])
    return Estimate.of_logs(logs[0], low, high, len(wide))
