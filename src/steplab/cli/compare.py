"""Compare performance models on rows that they have not seen."""

from __future__ import annotations

from typing import Annotated

import typer

import steplab
from steplab.cli._completion import complete_models
from steplab.cli._life import working
from steplab.cli._options import listed
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, table
from steplab.cli._roles import (
    CategoricalOption,
    ExtrinsicOption,
    IntrinsicOption,
    SourceArgument,
    TargetOption,
    again,
    tell,
)

app = command_app()


@app.command(epilog='Example: steplab compare times.csv --target t_iter --holdout "workers>16"')
def compare(
    source: SourceArgument,
    target: TargetOption = None,
    intrinsic: IntrinsicOption = "",
    categorical: CategoricalOption = "",
    extrinsic: ExtrinsicOption = "",
    models: Annotated[
        str,
        typer.Option("--models", help="Which models: a,b,c; all but slow ones.", autocompletion=complete_models),
    ] = "",
    folds: Annotated[int, typer.Option("--folds", help="Random folds, without --holdout.")] = 5,
    holdout: Annotated[
        list[str] | None, typer.Option("--holdout", help="Rows to predict from all others: 'workers>16'. Repeatable.")
    ] = None,
    formula: Annotated[
        list[str] | None, typer.Option("--formula", help="Your own formula, such as a0 + a1*batch_size.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare performance models on the same held-out rows: random folds, or ranges that --holdout names.

    Random folds: each row is predicted once, by a model that was fitted to the rows of the other folds;
    replicates of a configuration stay together. They tell how good a model is between measured points.

    --holdout COLUMN<=VALUE (or < > >= == !=): rows that meet any of the conditions are predicted by a model that
    was fitted to all others. This tells how a model extrapolates. With several, each is also scored by itself.

    MAPE is per cent of the measured value; covered is the share of held-out rows within their 90 % intervals,
    which should be near 90; the noise floor is how far rows of the same configuration lie apart.

    Names in a --formula that are no columns are coefficients, which are fitted.

    Example: steplab compare times.csv --target t_iter --extrinsic batch_size,workers --holdout "workers>16"
    """
    notes: list[str] = []
    try:
        with working("reading") as report:
            compared = steplab.compare(
                source, listed(models), target,
                intrinsic=listed(intrinsic), categorical=listed(categorical), extrinsic=listed(extrinsic),
                folds=folds, holdout=holdout or (), formulas=formula or (), notes=notes.extend,
                progress=lambda name, share: report(f"fitting {name}", share),
            )  # fmt: skip
    finally:
        tell(tuple(notes))  # below the bar, not into it
    if as_json:
        print_json(compared.document())
        return
    _show(compared)
    rest = again(source, target, intrinsic, categorical, extrinsic)
    for text in _recommended(compared):
        next_step(f"steplab fit {rest} --model {text}")


def _recommended(compared: steplab.ModelComparison) -> list[str]:
    """The model to fit; where the best is blind beyond the measured range, the best that is not, too."""
    best, outside = compared.best, compared.best_outside
    if compared.holdout:  # the question lies outside
        best = outside or best
    if best is None or best.startswith("formula"):
        return []
    inside = f"{best} --out model.json"
    if outside in (None, best) or str(outside).startswith("formula"):
        return [inside]
    return [f"{inside}  (between measured points)", f"{outside} --out model.json  (to predict beyond them)"]


def _show(compared: steplab.ModelComparison) -> None:
    from steplab.api.modelling.comparison import COLUMNS, cells

    title = f"{compared.target}: {compared.test_rows} held-out rows ({compared.judged_on})"
    out = console()
    out.print(table(COLUMNS, [cells(row, compared.target) for row in compared.rows], title=title), markup=False)
    for row in compared.rows:
        if row.reason:
            part = f" ({row.predicted_rows} of {compared.test_rows} rows predicted)" if row.predicted_rows else ""
            out.print(f"{row.model}: {row.reason}{part}", markup=False)
    noise = compared.noise
    if noise:
        told = f"MAPE {noise.mape:.1f} %, between replicates of {noise.configurations} configurations"
        out.print(f"noise floor: {told}", markup=False)
    else:
        out.print("noise floor: unknown, no configuration was measured twice", markup=False)
    for held in compared.holdouts:
        best = held.rows[0]
        out.print(f"{held.holdout}: best {best.model}, MAPE {best.mape or float('nan'):.1f} %", markup=False)
