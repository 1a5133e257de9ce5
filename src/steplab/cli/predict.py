"""Predict configurations that nobody has run, with an interval and a warning out of range."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, sentence, table

app = command_app()
LEVEL = 0.9


@app.command(epilog='Example: steplab predict model.json --at "batch_size=64,workers=4"')
def predict(
    model: Annotated[Path | None, typer.Argument(help="A model saved by `steplab fit --out`.")] = None,
    at: Annotated[list[str] | None, typer.Option("--at", help='A configuration: "batch_size=64,workers=4".')] = None,
    grid: Annotated[Path | None, typer.Option(help="A table with one configuration per row.")] = None,
    level: Annotated[float, typer.Option(help="Probability that a measurement lies in the interval.")] = LEVEL,
    network: Annotated[
        Path | None, typer.Option(help="A network profile: instead of a model, or for one fitted with --network.")
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="With --network: the study, of one host or of the model."),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="With --network, no model: a study with steps of several hosts."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Predict with a saved model: value, interval, inside or outside of the measured range.

    With a network profile instead, predict the step of several hosts from what one host measured.

    Example: steplab predict model.json --at "batch_size=64,workers=4" --at "batch_size=64,workers=8"

    Example: steplab predict --network box.json --from runs/demo --at "nodes=3,batch_size=64,strategy=accumulate:4"

    Example: steplab predict hybrid.json --network box.json --from runs/demo --at "batch_size=64,workers=3,nodes=3"
    """
    if (model is None and network is None) or (study is None) != (network is None):
        raise typer.BadParameter("give a model, or --network and --from, or all three")
    if model is None and network is not None and study is not None:
        if grid is not None or level != LEVEL:
            raise typer.BadParameter("--grid and --level are for a model; a network's predictions have 90 % intervals")
        _predict_network(network, study, at or [], calibrate, as_json)
        return
    assert model is not None
    if calibrate is not None:
        raise typer.BadParameter("--calibrate corrects a prediction from one host, not a model")
    if (not at) == (grid is None):
        raise typer.BadParameter("give --at or --grid, one of the two")
    predictions = steplab.load_model(model).predict(
        grid if grid is not None else at or [], level, network=network, study=study
    )
    if as_json:
        print_json(predictions.document())
        return
    console().print(table(predictions.columns, predictions.cells))
    outside = [prediction for prediction in predictions if not prediction.inside]
    if outside:
        known = any(prediction.low is not None for prediction in outside)
        told = "; its intervals there are learned by extrapolating inside of it" if known else ""
        told += ", and cannot know what sets in only beyond" if known else ""
        sentence(f"warning: outside of the measured range a model is a guess{told}", stderr=True)
    for note in predictions.notes:
        sentence(f"warning: {note}", stderr=True)
    next_step("steplab run STUDY.toml  (with such a configuration in it, to see whether that is true)")


def _predict_network(network: Path, study: Path, at: list[str], calibrate: Path | None, as_json: bool) -> None:
    if not at:
        raise typer.BadParameter('give --at "nodes=4"')
    predictions = steplab.predict_network(study, network, at, calibrate)
    if as_json:
        print_json(predictions.document())
        return
    console().print(table(predictions.columns, predictions.cells))
    for row in predictions:
        sentence(f"{row.described}: {row.sentence}" if len(predictions) > 1 else row.sentence)
    for warning in predictions.warnings:
        sentence(f"warning: {warning}", stderr=True)
