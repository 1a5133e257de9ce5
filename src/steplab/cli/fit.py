"""Fit a performance model to measurements and print it as a formula."""

from __future__ import annotations

from pathlib import Path
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
    from steplab.models.base import Parameter, PerformanceModel
    from steplab.models.columns.training_rows import Chosen

app = command_app()


@app.command(epilog='Example: steplab fit times.csv --target t_iter --extrinsic "batch_size,workers" --out m.json')
def fit(
    source: SourceArgument,
    target: TargetOption = None,
    intrinsic: IntrinsicOption = "",
    categorical: CategoricalOption = "",
    extrinsic: ExtrinsicOption = "",
    model: Annotated[str, typer.Option("--model", help="Which model, such as linear or hybrid.")] = "generic",
    penalty: Annotated[str | None, typer.Option(help="none, l1:0.01, l2:0.001, l2:cv …")] = None,
    loss: Annotated[str | None, typer.Option(help="absolute, relative or squared.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="A model's own option, name=value.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the model as JSON.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit a performance model to a study, a CSV or a Parquet file.

    Without --intrinsic, --categorical and --extrinsic names and types of the columns decide.

    Example: steplab fit times.csv --target t_iter --intrinsic filters --extrinsic batch_size,workers
    """
    import time

    chosen = load(source, target, intrinsic, categorical, extrinsic)
    extra = [f"{key}={value}" for key, value in (("penalty", penalty), ("loss", loss)) if value is not None]
    made = build(model, chosen, [*extra, *(option or [])])
    began = time.perf_counter()
    made.fit(chosen.X, chosen.y, chosen.groups)
    seconds = time.perf_counter() - began
    if out is not None:
        from steplab.cli._model_file import write_model

        write_model(made, out)
    document = fit_document(made, chosen, seconds)
    tell(chosen.notes)
    if as_json:
        print_json({**document, "file": None if out is None else str(out)})
        return
    _show(document, made)
    next_step(
        f'steplab predict {out} --at "{example(made)}"' if out else
        f"steplab compare {again(source, target, intrinsic, categorical, extrinsic)} (or save the model with --out)"
    )  # fmt: skip


def build(name: str, chosen: Chosen, options: list[str]) -> PerformanceModel:
    """A model of that name for these columns, with options given as name=value."""
    from steplab.core.errors import ModelError, allowed
    from steplab.models import load_model_class

    made = load_model_class(name)(chosen.roles.intrinsic, chosen.roles.categorical, chosen.roles.extrinsic)
    own = {k: v for k, v in made.get_params(deep=False).items() if k not in ("intrinsic", "categorical", "extrinsic")}
    for text in options:
        key, _, value = text.partition("=")
        if key not in own:
            raise ModelError(f"model {name!r} has no option {key!r}", hint=allowed(own) if own else "it has none")
        made.set_params(**{key: _typed(value, own[key], key)})
    return made


def _typed(text: str, default: object, key: str) -> object:
    from steplab.core.errors import ModelError

    if isinstance(default, bool):
        return text.lower() in ("1", "true", "yes")
    if isinstance(default, int | float):
        try:
            return type(default)(text)
        except ValueError:
            raise ModelError(f"option {key!r} is {text!r}", hint="it is a number") from None
    return text


def fit_document(made: PerformanceModel, chosen: Chosen, seconds: float) -> dict[str, Any]:
    """What `fit --json` prints."""
    from dataclasses import asdict

    from steplab.models.judging.selection import metrics

    formula = made.formula()
    return {
        "model": made.name(), "target": made.target_, "rows": made.rows_,
        "formula": formula.text if formula else None,
        "latex": formula.latex if formula else None, "tree": formula.tree if formula else None,
        "parameters": [asdict(parameter) for parameter in made.parameters()],
        "train": asdict(metrics(chosen.y.to_numpy(float), made.predict(chosen.X))),
        "roles": asdict(chosen.roles), "notes": list(chosen.notes), "seconds": seconds,
    }  # fmt: skip


def example(made: PerformanceModel) -> str:
    """A configuration inside of the measured range, as `predict --at` takes it."""
    numbers = [f"{c}={high:g}" for c, (_, high) in made.range_.items()]
    return ",".join([*numbers, *(f"{c}={levels[0]}" for c, levels in made.levels_.items())])


def _row(parameter: Parameter) -> list[str]:
    ends = ["" if end is None else f"{end:.4g}" for end in (parameter.low, parameter.high)]
    # The name says which factor it is; the symbol which part it plays.
    symbol = parameter.symbol.partition("[")[0]
    return [parameter.name, symbol, f"{parameter.value:.4g}", *ends, "" if parameter.identified else "?"]


def _show(document: dict[str, Any], made: PerformanceModel) -> None:
    screen, train = console(), document["train"]
    screen.print(f"{made.target_} = {document['formula'] or '(no formula)'}", markup=False, soft_wrap=True)
    why = getattr(made, "why", None)
    if why is not None:
        screen.print(why(), markup=False)
    columns = ["parameter", "", "value", "95% low", "high", ""]
    if document["parameters"]:
        screen.print(table(columns, [_row(parameter) for parameter in made.parameters()], left=2))
    if not all(parameter.identified for parameter in made.parameters()):
        screen.print("?: the data do not determine it", markup=False)
    errors = f"MAE {train['mae']:.4g}, MAPE {train['mape']:.2f} %, RMSE {train['rmse']:.4g}, R² {train['r2']:.4f}"
    screen.print(
        f"{made.name()} on the {made.rows_} rows it was fitted to, in {document['seconds']:.2f} s:", markup=False
    )
    screen.print(errors, markup=False)
