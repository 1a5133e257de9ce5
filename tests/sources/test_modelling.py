"""What the pages say of models is what the commands below their tables print."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import steplab
from steplab.models.columns.roles import Roles
from steplab.sources import modelling
from steplab.sources.modelling import PER_LEVEL, REFERENCE, FrameworkRows

ROLES = Roles(("filters",), ("padding", "optimizer"), ("batch_size",))


@pytest.fixture(scope="module")
def rows() -> FrameworkRows:
    """Steps by a law of the generic form, with a little noise."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({
        "filters": rng.choice([4, 8, 16], 60), "padding": rng.choice(["same", "valid"], 60),
        "optimizer": rng.choice(["adam", "sgd"], 60), "batch_size": rng.choice([8, 32, 128], 60),
    })  # fmt: skip
    work = 0.01 * table["filters"] ** 1.5 + 0.2 * (table["padding"] == "same")
    step = work * table["batch_size"] ** 0.5 * np.exp(rng.normal(0, 0.02, 60)) + 0.1
    return FrameworkRows("torch", table.assign(t_iter=step, trial=[str(at) for at in range(60)]), ROLES)


def test_evolved_parameters_are_those_of_the_model(rows: FrameworkRows) -> None:
    table = modelling.over_seeds(modelling.evolved(rows, seeds=2, generations=3), "none").set_index("parameter")
    options = {"seeds": 2, "maxiter": 3}
    fitted = steplab.fit(
        rows.trials, "generic-de", "t_iter", options=options,
        intrinsic=ROLES.intrinsic, categorical=ROLES.categorical, extrinsic=ROLES.extrinsic,
    )  # fmt: skip
    own = {(parameter.name, parameter.symbol): parameter for parameter in fitted.parameters}
    for name, symbol in (("filters", "p"), ("batch_size", "q"), ("constant", "C")):
        (told,) = table[table["symbol"] == symbol].loc[[name], "mean"]
        assert told == pytest.approx(next(p.value for (n, s), p in own.items() if s == symbol and n.startswith(name)))


def test_levels_of_both_codings_are_of_the_same_fit(rows: FrameworkRows) -> None:
    table = modelling.evolved(rows, seeds=1, generations=2).query("penalty == 'none'")
    levels = table[table["coding"] == PER_LEVEL].set_index("parameter")["value"]
    differences = table[table["coding"] == REFERENCE].set_index("parameter")["value"]
    assert differences["padding=valid"] == pytest.approx(levels["padding=valid"] - levels["padding=same"])


def test_the_solved_parameters_hold_the_law(rows: FrameworkRows) -> None:
    table = modelling.solved(rows)
    power = table[(table["parameter"].str.startswith("batch_size")) & (table["symbol"] == "q")].iloc[0]
    assert power["low"] <= 0.5 <= power["high"]


def test_accuracy_is_of_rows_that_the_fit_has_not_seen(rows: FrameworkRows) -> None:
    table = modelling.accuracy(modelling.errors(rows, ("generic",)))
    assert len(modelling.errors(rows, ("generic",))) == len(rows.trials)
    assert table["mape"].iloc[0] < 10  # the noise is 2 %


def test_the_errors_are_those_that_compare_prints_replicates_together(rows: FrameworkRows) -> None:
    twice = pd.concat([rows.trials, rows.trials.assign(t_iter=lambda frame: 1.1 * frame["t_iter"])], ignore_index=True)
    own = FrameworkRows("torch", twice.assign(trial=[str(at) for at in range(len(twice))]), ROLES)
    (told,) = modelling.accuracy(modelling.errors(own, ("linear",))).to_dict("records")
    groups = pd.Series(own.groups)
    assert groups.nunique() == twice[list(ROLES.columns)].drop_duplicates().shape[0]
    table = own.trials[[*ROLES.columns, "t_iter"]].assign(run=groups)  # `compare` keeps the rows of a run together
    compared = steplab.compare(
        table, ["linear"], "t_iter",
        intrinsic=ROLES.intrinsic, categorical=ROLES.categorical, extrinsic=ROLES.extrinsic,
    )  # fmt: skip
    assert told["mape"] == pytest.approx(compared.rows[0].mape)


def test_too_few_rows_give_no_table(rows: FrameworkRows) -> None:
    few = FrameworkRows("torch", rows.trials.head(5), ROLES)
    assert modelling.errors(few, ("generic",)).empty
    assert modelling.solved(few).empty
