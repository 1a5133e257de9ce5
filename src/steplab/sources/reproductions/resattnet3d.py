"""MMU, chapter 5: the generic performance model of 3D-ResAttNet-18 on brain volumes."""

from __future__ import annotations

import pandas as pd

from steplab.models.columns.roles import Roles
from steplab.sources import modelling
from steplab.sources.claim import Claim
from steplab.sources.source import Figure, Measured, PageTable, Question, Source, Tables

ROLES = Roles(
    ("filters", "kernel_size", "learning_rate"), ("padding", "activation", "optimizer"), ("batch_size", "workers")
)
FORMULA = "--target t_iter --intrinsic filters,kernel_size,learning_rate "
FORMULA += "--categorical padding,activation,optimizer --extrinsic batch_size,workers"
AS_GOOD = "Is the generic model as good as the random forest on this network, too?"


def more(measured: list[Measured], trials: pd.DataFrame) -> Tables:
    """Held-out predictions, and parameters from every seed."""
    own = [rows for rows in modelling.by_framework(trials, ROLES) if len(rows.trials) >= modelling.FEWEST]
    return {
        "errors": modelling.joined([modelling.errors(rows) for rows in own]),
        "parameters": modelling.joined([modelling.parameters(rows) for rows in own]),
    }


def as_good_as_forest(tables: Tables) -> Claim:
    """Whether its held-out error is at most a tenth larger than the forest's."""
    return modelling.as_good_as_forest(AS_GOOD, tables["errors"])


def steps(tables: Tables) -> pd.DataFrame:
    """The range of the measured steps."""
    return modelling.steps(tables["trials"])


def with_l2(tables: Tables) -> pd.DataFrame:
    """Parameters over the seeds with λ = 0.001."""
    return modelling.over_seeds(tables["parameters"], "l2").drop(columns="framework")


def predicted(tables: Tables) -> str:
    """Predicted against measured."""
    return modelling.predicted_chart(tables["errors"])


def accuracy(tables: Tables) -> pd.DataFrame:
    """The models on held-out rows."""
    return modelling.accuracy(tables["errors"])


SOURCE = Source(
    "resattnet3d",
    "3D-ResAttNet-18 on brain volumes",
    "MMU, chapter 5",
    (
        PageTable(
            "steps", steps, "steplab export {folder} --table trials --to trials.csv", on=("framework", "workers")
        ),
        PageTable(
            "parameters",
            with_l2,
            f"steplab fit {{folder}} {FORMULA} --model generic-de --option maxiter=200 --penalty l2:0.001",
            "mmu_5_2_resattnet",
            ("parameter", "symbol"),
            reads=("parameters",),
        ),
        PageTable(
            "accuracy",
            accuracy,
            f"steplab compare {{folder}} {FORMULA} --models generic,random-forest,svr",
            on=("framework", "model"),
            reads=("errors",),
        ),
    ),
    (Question(AS_GOOD, as_good_as_forest),),
    figures=(
        Figure("predicted", "Held-out steps, predicted by generic against measured", predicted, reads=("errors",)),
    ),
    more=more,
)
