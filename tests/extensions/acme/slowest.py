"""The slowest trial of a study."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None)


@app.command()
def slowest(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Name the slowest trial of a study.

    Example: steplab slowest runs/demo
    """
    import steplab

    trials = steplab.open(folder).trials
    slow = trials.loc[trials["t_iter"].idxmax()]
    document = {"trial": slow["trial"], "t_iter": slow["t_iter"]}
    typer.echo(json.dumps(document) if as_json else f"{slow['trial']}: {slow['t_iter']:.3g} s")
