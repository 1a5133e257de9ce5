"""MMU, chapter 4: the generic performance model of LeNet-5 in three frameworks."""

from __future__ import annotations

import pandas as pd

from steplab.models.columns.roles import Roles
from steplab.sources import modelling
from steplab.sources.claim import Claim
from steplab.sources.modelling import PER_LEVEL, REFERENCE
from steplab.sources.source import Figure, Measured, PageTable, Question, Source, Tables

ROLES = Roles(
    ("filters", "kernel_size", "pool_size", "learning_rate", "stride", "dropout"),
    ("padding", "activation", "dataset", "optimizer"),
    ("batch_size", "workers"),
)
FORMULA = "--target t_iter --intrinsic filters,kernel_size,pool_size,learning_rate,stride,dropout "
FORMULA += "--categorical padding,activation,dataset,optimizer --extrinsic batch_size,workers"
THEIRS = {"pytorch": "torch"}  # what the thesis calls a framework, and we
IS_L2_STABLE = "Does an L2 penalty make the coefficients stable?"
IS_CODING_STABLE = "Does coding against a reference level alone make them stable?"
AS_GOOD = "Is the generic model as good as the random forest?"


def more(measured: list[Measured], trials: pd.DataFrame) -> Tables:
    """Held-out predictions, parameters from every seed, and the λ scan of each framework."""
    own = [rows for rows in modelling.by_framework(trials, ROLES) if len(rows.trials) >= modelling.FEWEST]
    return {
        "errors": modelling.joined([modelling.errors(rows) for rows in own]),
        "parameters": modelling.joined([modelling.parameters(rows) for rows in own]),
        "solved": modelling.joined([modelling.solved(rows) for rows in own]),
        "penalties": modelling.joined([modelling.penalties(rows) for rows in own]),
    }


def l2_is_stable(tables: Tables) -> Claim:
    """Whether the penalty lets the seeds agree, one coefficient for each level as in the source."""
    parameters = tables["parameters"]
    first, second = _spreads(parameters, "none", PER_LEVEL), _spreads(parameters, "l2", PER_LEVEL)
    return modelling.narrower(IS_L2_STABLE, "spread with L2 over that without", first, second, 2)


def coding_is_stable(tables: Tables) -> Claim:
    """Whether differences from a reference level of the same fits, without a penalty, agree."""
    parameters = tables["parameters"]
    first, second = _spreads(parameters, "none", PER_LEVEL), _spreads(parameters, "none", REFERENCE)
    return modelling.narrower(IS_CODING_STABLE, "spread of differences over that of levels", first, second, 2)


def _spreads(parameters: pd.DataFrame, penalty: str, coding: str) -> modelling.Spreads:
    return modelling.spreads(parameters, penalty, coding) if len(parameters) else pd.Series(dtype=float)


def as_good_as_forest(tables: Tables) -> Claim:
    """Whether its held-out error is at most a tenth larger than the forest's."""
    return modelling.as_good_as_forest(AS_GOOD, tables["errors"])


def steps(tables: Tables) -> pd.DataFrame:
    """The range of the measured steps."""
    return modelling.steps(tables["trials"])


def unregularised(tables: Tables) -> pd.DataFrame:
    """Parameters over the seeds without a penalty."""
    return modelling.over_seeds(tables["parameters"], "none")


def with_l2(tables: Tables) -> pd.DataFrame:
    """Parameters over the seeds with λ = 0.001."""
    return modelling.over_seeds(tables["parameters"], "l2")


def one_answer(tables: Tables) -> pd.DataFrame:
    """The parameters of `generic`, which solves the same expression."""
    columns = ["framework", "parameter", "symbol", "value", "low", "high", "identified"]
    return tables["solved"][columns]


def scaling_powers(tables: Tables) -> pd.DataFrame:
    """The power of the number of workers."""
    powers = with_l2(tables).query("parameter == 'workers'")
    return powers[["framework", "mean", "std"]].rename(columns={"mean": "workers_power"})


def scan(tables: Tables) -> pd.DataFrame:
    """Held-out R² and MAPE against λ."""
    return tables["penalties"][["framework", "penalty", "strength", "r2", "mape"]]


def predicted(tables: Tables) -> str:
    """Predicted against measured."""
    return modelling.predicted_chart(tables["errors"])


def accuracy(tables: Tables) -> pd.DataFrame:
    """The models on held-out rows."""
    return modelling.accuracy(tables["errors"])


SOURCE = Source(
    "generic-model",
    "The generic performance model",
    "MMU, chapter 4",
    (
        PageTable(
            "steps", steps, "steplab export {folder} --table trials --to trials.csv", on=("framework", "workers")
        ),
        PageTable(
            "unregularised",
            unregularised,
            f"steplab fit {{folder}} {FORMULA} --model generic-de --option maxiter=200",
            "mmu_4_2_unregularised",
            ("framework", "parameter", "symbol"),
            reads=("parameters",),
            levels=THEIRS,
        ),
        PageTable(
            "l2",
            with_l2,
            f"steplab fit {{folder}} {FORMULA} --model generic-de --option maxiter=200 --penalty l2:0.001",
            "mmu_4_3_l2",
            ("framework", "parameter", "symbol"),
            reads=("parameters",),
            levels=THEIRS,
        ),
        PageTable(
            "solved",
            one_answer,
            f"steplab fit {{folder}} {FORMULA} --model generic --option form=source",
            reads=("solved",),
        ),
        PageTable(
            "scan",
            scan,
            f"steplab penalty {{folder}} {FORMULA}",
            reads=("penalties",),
            on=("framework", "penalty", "strength"),
        ),
        PageTable(
            "accuracy",
            accuracy,
            f"steplab compare {{folder}} {FORMULA} --models generic,random-forest,svr",
            "mmu_accuracy",
            reads=("errors",),
        ),
        PageTable(
            "scaling",
            scaling_powers,
            f"steplab fit {{folder}} {FORMULA} --model generic-de --option maxiter=200 --penalty l2:0.001",
            "mmu_4_5_scaling",
            ("framework",),
            reads=("parameters",),
            levels=THEIRS,
        ),
    ),
    (
        Question(IS_L2_STABLE, l2_is_stable),
        Question(IS_CODING_STABLE, coding_is_stable),
        Question(AS_GOOD, as_good_as_forest),
    ),
    figures=(
        Figure("predicted", "Held-out steps, predicted by generic against measured", predicted, reads=("errors",)),
    ),
    parts=("generic-model-torch", "generic-model-tensorflow", "generic-model-mxnet"),
    more=more,
)
