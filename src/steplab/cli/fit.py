"""Fit a performance model to measurements and print it as a formula."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import steplab
from steplab.cli._completion import complete_models
from steplab.cli._life import working
from steplab.cli._options import listed
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, sentence, shell, table
from steplab.cli._roles import (
    CategoricalOption,
    ExtrinsicOption,
    IntrinsicOption,
    SourceArgument,
    TargetOption,
    again,
    tell,
)

if TYPE_CHECKING:
    from steplab.api.modelling.fitting import Parameter

app = command_app()


@app.command(epilog='Example: steplab fit times.csv --target t_iter --extrinsic "batch_size,workers" --out m.json')
def fit(
    source: SourceArgument,
    target: TargetOption = None,
    intrinsic: IntrinsicOption = "",
    categorical: CategoricalOption = "",
    extrinsic: ExtrinsicOption = "",
    model: Annotated[
        str, typer.Option("--model", help="Which model, such as hybrid; auto chooses.", autocompletion=complete_models)
    ] = "auto",
    penalty: Annotated[str | None, typer.Option(help="none, l1:0.01, l2:0.001, l2:cv …")] = None,
    loss: Annotated[str | None, typer.Option(help="absolute, relative or squared.")] = None,
    network: Annotated[
        Path | None, typer.Option(help="A profile of the network that the study varies: its exchange stands for rate.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help="A model's own option, name=value.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the model as JSON.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit a performance model to a study, a CSV or a Parquet file.

    Without --intrinsic, --categorical and --extrinsic names and types of the columns decide.

    Example: steplab fit times.csv --target t_iter --intrinsic filters --extrinsic batch_size,workers

    Example: steplab fit runs/demo --model hybrid --extrinsic batch_size,workers --network box.json --out hybrid.json
    """
    given = {key: value for key, value in (("penalty", penalty), ("loss", loss)) if value is not None}
    split = [text.partition("=") for text in option or ()]
    # A penalty and a loss are options of the generic model: who asks for them means it.
    name = "generic" if given and model == "auto" else model
    with working(f"fitting {name}"):
        fitted = steplab.fit(
            source, name, target,
            intrinsic=listed(intrinsic), categorical=listed(categorical), extrinsic=listed(extrinsic),
            options=given | {key: value for key, _, value in split}, network=network,
        )  # fmt: skip
        if out is not None:
            fitted.save(out)  # which learns how errors grow outside
    tell(fitted.notes)
    for warning in fitted.warnings:
        sentence(f"warning: {warning}", stderr=True)
    if as_json:
        print_json({**fitted.document(), "file": None if out is None else str(out)})
        return
    _show(fitted)
    next_step(
        shell("steplab", "predict", out, "--at", fitted.example) if out else
        f"steplab compare {again(source, target, intrinsic, categorical, extrinsic)} (or save the model with --out)"
    )  # fmt: skip


def _row(parameter: Parameter) -> list[str]:
    ends = ["" if end is None else f"{end:.4g}" for end in (parameter.low, parameter.high)]
    # The name says which factor it is; the symbol which part it plays.
    symbol = parameter.symbol.partition("[")[0]
    return [parameter.name, symbol, f"{parameter.value:.4g}", *ends, "" if parameter.identified else "?"]


def _show(fitted: steplab.FittedModel) -> None:
    screen, parameters = console(), fitted.parameters
    sentence(f"{fitted.target} = {fitted.formula or '(no formula)'}")
    if fitted.why:
        screen.print(fitted.why, markup=False)
    columns = ["parameter", "", "value", "95% low", "high", ""]
    if parameters:
        screen.print(table(columns, [_row(parameter) for parameter in parameters], left=2))
    unknown = [parameter for parameter in parameters if not parameter.identified]
    if unknown:
        alone = ", or a single configuration does" if any(parameter.low is None for parameter in unknown) else ""
        screen.print(f"?: the data do not determine it{alone}", markup=False)
    rows = f"the {fitted.estimator.rows_} rows it was fitted to"
    screen.print(f"{fitted.name} on {rows}, in {fitted.seconds or 0:.2f} s:", markup=False)
    screen.print(fitted.accuracy, markup=False)
