"""Predict configurations that nobody has run, with an interval and a warning out of range."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, table

app = command_app()


@app.command(epilog='Example: steplab predict model.json --at "batch_size=64,workers=4"')
def predict(
    model: Annotated[Path, typer.Argument(help="A model saved by `steplab fit --out`.")],
    at: Annotated[list[str] | None, typer.Option("--at", help='A configuration: "batch_size=64,workers=4".')] = None,
    grid: Annotated[Path | None, typer.Option(help="A table with one configuration per row.")] = None,
    level: Annotated[float, typer.Option(help="Probability that a measurement lies in the interval.")] = 0.9,
    as_json: JsonOption = False,
) -> None:
    """Predict with a saved model: value, interval, inside or outside of the measured range.

    Example: steplab predict model.json --at "batch_size=64,workers=4" --at "batch_size=64,workers=8"
    """
    if (not at) == (grid is None):
        raise typer.BadParameter("give --at or --grid, one of the two")
    predictions = steplab.load_model(model).predict(grid if grid is not None else at or [], level)
    if as_json:
        print_json(predictions.document())
        return
    console().print(table(predictions.columns, predictions.cells))
    if not all(prediction.inside for prediction in predictions):
        told = "intervals outside of the measured range are learned by extrapolating inside of it"
        typer.echo(f"warning: outside of the measured range a model is a guess; {told}", err=True)
    for note in predictions.notes:
        typer.echo(f"warning: {note}", err=True)
    next_step("steplab run STUDY.toml  (with such a configuration in it, to see whether that is true)")
