"""The slowest trial of a study."""

from pathlib import Path
from typing import Annotated

import typer

from steplab.store.tables import load

app = typer.Typer()


@app.command()
def slowest(folder: Annotated[Path, typer.Argument(help="A study's folder.")]) -> None:
    """Name the slowest trial of a study.

    Example: steplab slowest runs/demo
    """
    trials = load(folder).trials
    typer.echo(trials.loc[trials["t_iter"].idxmax(), "trial"])
