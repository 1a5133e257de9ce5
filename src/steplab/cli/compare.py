"""Compare performance models on rows that they have not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, table
from steplab.cli._roles import (
    CategoricalOption,
    ExtrinsicOption,
    IntrinsicOption,
    SourceArgument,
    TargetOption,
    again,
    load,
    tell,
)

if TYPE_CHECKING:
    import numpy as np

    from steplab.models.base import PerformanceModel
    from steplab.models.columns.training_rows import Chosen
    from steplab.models.judging.selection import HeldOut, Holdout, NoiseFloor

app = command_app()
MEASURES = ("mae", "mape", "rmse", "r2", "coverage", "fit_seconds")


@app.command(epilog='Example: steplab compare times.csv --target t_iter --holdout "workers>16"')
def compare(
    source: SourceArgument,
    target: TargetOption = None,
    intrinsic: IntrinsicOption = "",
    categorical: CategoricalOption = "",
    extrinsic: ExtrinsicOption = "",
    models: Annotated[str, typer.Option("--models", help="Which models: a,b,c; all but slow ones.")] = "",
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
    import numpy as np

    from steplab.models.judging.selection import held_out, noise_floor, random_folds, range_split

    chosen = load(source, target, intrinsic, categorical, extrinsic)
    asked = [_holdout(text) for text in holdout or []]
    made = _models(models, formula or [], chosen)
    y = chosen.y.to_numpy(float)
    splits = range_split(chosen.X, asked) if asked else random_folds(len(y), chosen.groups, folds)
    tell(chosen.notes)
    results = []
    for name, model in made:
        typer.echo(f"fitting {name} …", err=True)
        results.append((name, held_out(model, chosen.X, y, splits, chosen.groups)))
    document = _document(results, y, splits, asked, chosen, noise_floor(_factors(chosen), y))
    document |= {"folds": None if asked else len(splits), "grouped": chosen.groups is not None}
    if as_json:
        print_json(document)
        return
    _show(document)
    best = next((row["model"] for row in document["rows"] if np.isfinite(row["mape"] or np.nan)), None)
    if best and not best.startswith("formula"):
        rest = again(source, target, intrinsic, categorical, extrinsic)
        next_step(f"steplab fit {rest} --model {best} --out model.json")


def _holdout(text: str) -> Holdout:
    from dataclasses import replace

    from steplab.models.judging.selection import parse_holdout
    from steplab.store.source import clean_name

    parsed = parse_holdout(text)
    return replace(parsed, column=clean_name(parsed.column))


def _factors(chosen: Chosen) -> Any:
    return chosen.X[list(chosen.roles.columns)]


def _models(names: str, formulas: list[str], chosen: Chosen) -> list[tuple[str, PerformanceModel]]:
    """The models to compare; a formula is read now, so that a mistake in it is told at once."""
    from steplab.models import load_model_class, offered
    from steplab.models.formulas.parser import parse_formula
    from steplab.models.formulas.user_formula import UserFormula

    wanted = [name.strip() for name in names.split(",") if name.strip()] or offered("compare")
    roles = (chosen.roles.intrinsic, chosen.roles.categorical, chosen.roles.extrinsic)
    made: list[tuple[str, PerformanceModel]] = [(name, load_model_class(name)(*roles)) for name in wanted]
    for i, text in enumerate(formulas):
        parse_formula(text, chosen.roles.numeric)
        made.append((f"formula{i + 1 if i else ''}", UserFormula(*roles, expression=text)))
    return made


def _row(name: str, result: HeldOut, y: np.ndarray, rows: np.ndarray | None = None) -> dict[str, Any]:
    from dataclasses import asdict

    import numpy as np

    scored = result.score(y, rows)
    errors = dict.fromkeys(MEASURES) if scored is None else {**asdict(scored[0]), "coverage": scored[1]}
    answered = np.isfinite(result.predicted) if rows is None else np.isfinite(result.predicted) & rows
    return {
        "model": name, **errors, "predicted_rows": int(answered.sum()), "fit_seconds": result.fit_seconds,
        "reason": result.reason or None,
    }  # fmt: skip


def _ranked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The least error first, but a model that answered for fewer rows never before one that answered for more."""
    return sorted(rows, key=lambda row: (-row["predicted_rows"], row["mape"] or row["mae"] or 0.0))


def _document(
    results: list[tuple[str, HeldOut]], y: np.ndarray, splits: list[tuple[np.ndarray, np.ndarray]],
    asked: list[Holdout], chosen: Chosen, noise: NoiseFloor | None,
) -> dict[str, Any]:  # fmt: skip
    from dataclasses import asdict

    ranges = [(holdout.text, holdout.rows(chosen.X)) for holdout in asked] if len(asked) > 1 else []
    return {
        "target": str(chosen.y.name),
        "rows": _ranked([_row(name, result, y) for name, result in results]),
        "train_rows": min(len(train) for train, _ in splits),
        "test_rows": sum(len(test) for _, test in splits),
        "holdout": [holdout.text for holdout in asked],
        "holdouts": [
            {"holdout": text, "test_rows": int(rows.sum()),
             "rows": _ranked([_row(name, result, y, rows) for name, result in results])}
            for text, rows in ranges
        ],
        "noise": None if noise is None else asdict(noise),
    }  # fmt: skip


def _cell(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)


def _show(document: dict[str, Any]) -> None:
    forms = (("mae", ".4g"), ("mape", ".1f"), ("rmse", ".4g"), ("r2", ".3f"))
    rows = [
        [row["model"], *(_cell(row[name], form) for name, form in forms),
         _cell(None if row["coverage"] is None else 100 * row["coverage"], ".0f"),
         _cell(row["fit_seconds"], ".2f")]
        for row in document["rows"]
    ]  # fmt: skip
    together = ", replicates together" if document["grouped"] else ""
    held = ", ".join(document["holdout"]) or f"{document['folds']} random folds{together}"
    title = f"{document['target']}: {document['test_rows']} held-out rows ({held})"
    out = console()
    out.print(table(("model", "MAE", "MAPE %", "RMSE", "R²", "covered %", "fit s"), rows, title=title), markup=False)
    for row in document["rows"]:
        if row["reason"]:
            part = (
                f" ({row['predicted_rows']} of {document['test_rows']} rows predicted)" if row["predicted_rows"] else ""
            )
            out.print(f"{row['model']}: {row['reason']}{part}", markup=False)
    noise = document["noise"]
    if noise:
        told = f"MAPE {noise['mape']:.1f} %, between replicates of {noise['configurations']} configurations"
        out.print(f"noise floor: {told}", markup=False)
    else:
        out.print("noise floor: unknown, no configuration was measured twice", markup=False)
    for part in document["holdouts"]:
        best = part["rows"][0]
        out.print(f"{part['holdout']}: best {best['model']}, MAPE {best['mape']:.1f} %", markup=False)
