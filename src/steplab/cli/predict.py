"""Predict configurations that nobody has run, with an interval and a warning out of range."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    from dataclasses import asdict

    from steplab.cli._model_file import read_model
    from steplab.planning.predict import configurations, parse_configuration, predict_table

    if (not at) == (grid is None):
        raise typer.BadParameter("give --at or --grid, one of the two")
    made = read_model(model)
    if grid is not None:
        from steplab.store.source import read_source

        X = read_source(grid).frame
    else:
        X = configurations(made, [parse_configuration(text) for text in at or []])
    found = predict_table(made, X, level)
    if as_json:
        print_json({"model": made.name(), "target": made.target_, "level": level,
                    "predictions": [asdict(prediction) for prediction in found]})  # fmt: skip
        return
    rows = [[_configuration(p.at), f"{p.value:.4g}", f"{p.low:.4g}", f"{p.high:.4g}",
             "inside" if p.inside else "OUTSIDE: " + ", ".join(p.outside)] for p in found]  # fmt: skip
    console().print(table(["configuration", made.target_, f"{level:.0%} low", "high", "range"], rows))
    if not all(p.inside for p in found):
        typer.echo("warning: outside of the measured range a model is a guess; the intervals are wider", err=True)
    next_step("steplab run STUDY.toml  (with such a configuration in it, to see whether that is true)")


def _configuration(at: dict[str, str | float]) -> str:
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in at.items()
    )
